-- Duties: what one process at a time does for the whole site. Each is a lease held by name.
--
-- No transaction is held open, so a duty works through a transaction pooler. One row is locked, for
-- the time of its statement.

-- name: take
-- Taken, renewed by its holder, or taken over once it has expired. The first condition keeps those
-- that wait their turn from locking the row of the one who has it; the second decides the race of
-- two who both found it expired, on the newest version of the row.
insert into x_job_leases as held (kind, name, holder, token, acquired_at, renewed_at, expires_at)
select 'named', %(name)s::text, %(holder)s::uuid, 1, x_now(), x_now(),
    x_now() + %(ttl_ms)s::bigint * interval '1 ms'
where not exists (
    select from x_job_leases l
    where l.kind = 'named' and l.name = %(name)s::text and l.slot = 0
        and l.holder <> %(holder)s::uuid and l.expires_at > x_now())
on conflict (kind, name, slot) do update
set holder = excluded.holder, renewed_at = excluded.renewed_at, expires_at = excluded.expires_at,
    token = case when held.holder = excluded.holder then held.token else held.token + 1 end,
    acquired_at = case when held.holder = excluded.holder then held.acquired_at
        else excluded.acquired_at end
where held.holder = excluded.holder or held.expires_at <= x_now()
returning token;
