-- The slots of limits: rows of x_job_leases, numbered from 0 for each name.
--
-- A slot is valid until it expires. The unique index on (kind, name, slot) makes a limit exact: two
-- takers of one number meet there, the second waits for the first, and takes it only where it has
-- expired. A slot is given back by letting it expire and not by deleting it: taking it again then
-- is an update beside the old version, and not one more dead entry in the index for each job.
--
-- Lock order: job rows first and never waiting for one, then slots by (name by code point, number).
-- Each taking is one statement, so that a process that is stopped between two of them leaves no
-- uncommitted slot for others to wait for.

-- name: take
-- Free numbers are those without a valid row, the lowest first. Where a limit was lowered, valid
-- slots beyond it still count, so that there are never more than the new limit and what drains.
-- Lateral, and kept so by its OFFSET: for a list of names the planner may read every slot there is.
-- A job that got less than it needs gives it back: the caller compares.
with need as materialized (
    select n.*, row_number() over (partition by n.name order by n.position)::integer as rank
    from unnest(
        %(jobs)s::uuid[], %(names)s::text[], %(most)s::integer[], %(holders)s::uuid[],
        %(ttls_ms)s::bigint[]
    ) with ordinality as n(job, name, most, holder, ttl_ms, position)
),
valid as materialized (
    select l.name, l.slot
    from (select distinct name from need) n
    cross join lateral (
        select s.name, s.slot from x_job_leases s
        where s.kind = 'slot' and s.name = n.name and s.expires_at > x_now()
        offset 0
    ) l
),
room as materialized (
    select w.name, free.slot,
        row_number() over (partition by w.name order by free.slot)::integer as rank
    from (select name, min(most) as most, count(*) as wanted from need group by name) w
    cross join lateral (
        select s.slot from generate_series(0, w.most - 1) as s(slot)
        where not exists (select from valid v where v.name = w.name and v.slot = s.slot)
        order by s.slot
        limit greatest(0, least(
            w.wanted, w.most - (select count(*) from valid v where v.name = w.name)))
    ) free
)
insert into x_job_leases as l
    (kind, name, slot, holder, token, acquired_at, renewed_at, expires_at, info)
select 'slot', n.name, r.slot, n.holder, 1, x_now(), x_now(),
    x_now() + n.ttl_ms * interval '1 ms', jsonb_build_object('job', n.job)
from need n
join room r on r.name = n.name and r.rank = n.rank
order by n.name collate "C", r.slot
on conflict (kind, name, slot) do update
set holder = excluded.holder, token = l.token + 1, acquired_at = excluded.acquired_at,
    renewed_at = excluded.renewed_at, expires_at = excluded.expires_at, info = excluded.info
where l.expires_at <= x_now()
returning (l.info ->> 'job')::uuid, l.id, l.token, l.name, l.slot;

-- name: claim
-- Takes slots for jobs that it could lock, and claims those that got all they need, at one stroke:
-- nobody ever sees a job running without its slots, nor one that was claimed only to be put back.
-- A job with a serial key is claimed only where it is the first live one of its key, but for those
-- that are not yet due (x_jobs_serial_idx). What was taken for a job that is not claimed comes back
-- without one, and the caller releases it. Rows are found by id: the states are those that are not
-- live, or the planner might read a partial index of the live ones whole.
with asked as materialized (
    select n.*
    from unnest(
        %(jobs)s::uuid[], %(names)s::text[], %(most)s::integer[], %(holders)s::uuid[],
        %(ttls_ms)s::bigint[]
    ) with ordinality as n(job, name, most, holder, ttl_ms, position)
),
locked as materialized (
    select j.id
    from x_jobs j
    where j.id = any(%(ids)s::uuid[])
        and j.state not in ('running', 'completed', 'dead', 'cancelled') and j.run_at <= x_now()
        and (j.serial_key is null or j.id = (
            select f.id from x_jobs f
            where f.serial_key = j.serial_key
                and f.state in ('ready', 'delayed', 'running', 'suspended')
                and not (f.state = 'delayed' and f.run_at > x_now())
            order by f.serial_key, f.created_at, f.id
            limit 1))
    for no key update of j skip locked
),
need as materialized (
    select a.*, row_number() over (partition by a.name order by a.position)::integer as rank
    from asked a
    where a.job in (select id from locked)
),
valid as materialized (
    select l.name, l.slot
    from (select distinct name from need) n
    cross join lateral (
        select s.name, s.slot from x_job_leases s
        where s.kind = 'slot' and s.name = n.name and s.expires_at > x_now()
        offset 0
    ) l
),
room as materialized (
    select w.name, free.slot,
        row_number() over (partition by w.name order by free.slot)::integer as rank
    from (select name, min(most) as most, count(*) as wanted from need group by name) w
    cross join lateral (
        select s.slot from generate_series(0, w.most - 1) as s(slot)
        where not exists (select from valid v where v.name = w.name and v.slot = s.slot)
        order by s.slot
        limit greatest(0, least(
            w.wanted, w.most - (select count(*) from valid v where v.name = w.name)))
    ) free
),
taken as (
    insert into x_job_leases as l
        (kind, name, slot, holder, token, acquired_at, renewed_at, expires_at, info)
    select 'slot', n.name, r.slot, n.holder, 1, x_now(), x_now(),
        x_now() + n.ttl_ms * interval '1 ms', jsonb_build_object('job', n.job)
    from need n
    join room r on r.name = n.name and r.rank = n.rank
    order by n.name collate "C", r.slot
    on conflict (kind, name, slot) do update
    set holder = excluded.holder, token = l.token + 1, acquired_at = excluded.acquired_at,
        renewed_at = excluded.renewed_at, expires_at = excluded.expires_at, info = excluded.info
    where l.expires_at <= x_now()
    returning (l.info ->> 'job')::uuid as job, l.id, l.token, l.name, l.slot
),
granted as materialized (
    select n.job
    from need n
    left join taken t on t.job = n.job and t.name = n.name
    group by n.job
    having count(*) = count(t.id)
),
claimed as (
    update x_jobs j
    set state = 'running', worker = %(worker)s::uuid, token = j.token + 1,
        attempt = j.attempt + 1, claimed_at = x_now(), updated_at = x_now()
    where j.id = any(array(select job from granted))
    returning j.*
)
select t.slots, j.id, j.run_id, j.name, j.queue, j.tenant_id, j.idempotency_key, j.payload::text,
    j.token, j.attempt, j.max_attempts, j.lost_leases, j.retry_count, j.priority, j.due_at,
    j.traceparent, j.run_at
from (
    select job, json_agg(json_build_array(id, token, name, slot))::text as slots
    from taken group by job
) t
left join claimed j on j.id = t.job;

-- name: release
-- Only this very taking: a slot that has expired may be another's, or ours for another job.
update x_job_leases l
set expires_at = 'epoch', renewed_at = x_now()
where l.id = any(array(
    select e.id
    from unnest(%(ids)s::bigint[], %(tokens)s::bigint[]) as d(id, token)
    join x_job_leases e on e.id = d.id and e.token = d.token and e.kind = 'slot'
    order by e.name collate "C", e.slot
    for update of e));

-- name: used
-- How many slots of each name are valid. Index: the unique one on (kind, name, slot).
select l.name, count(*)::integer
from x_job_leases l
where l.kind = 'slot' and l.name = any(%(names)s::text[]) and l.expires_at > x_now()
group by l.name;

-- name: held_by
-- For a worker whose claim was committed and not answered. Index: that on holder.
select id, token, name, slot from x_job_leases
where holder = %(worker)s::uuid and kind = 'slot' and expires_at > x_now();

-- name: holders
-- Who holds them, for whoever asks why a job waits.
select l.name, l.slot, l.info ->> 'job', l.expires_at
from x_job_leases l
where l.kind = 'slot' and l.name = any(%(names)s::text[]) and l.expires_at > x_now()
order by l.name collate "C", l.acquired_at, l.slot;

-- name: forget_expired
-- A slot in steady use is left: its next taking finds the row. One that is locked is being taken.
delete from x_job_leases l
where l.id in (
    select e.id from x_job_leases e
    where e.kind = 'slot' and e.expires_at <= x_now()
        and e.renewed_at <= x_now() - interval '1 minute'
    limit 1000
    for update skip locked);

-- name: few
-- Waiting jobs by name, where a name has few live ones: a limited job behind a million others of
-- its queue is found without passing over them. Index: that of live keys, in whose order they are read.
-- A name with more than "most" comes back alone, without an id, and is looked for from the heads.
-- Tenants take turns within a priority.
with live as materialized (
    select n.name as asked, j.*
    from unnest(%(names)s::text[]) as n(name)
    cross join lateral (
        select * from x_jobs j
        where j.name = n.name and j.state in ('ready', 'delayed', 'running', 'suspended')
        order by j.name, coalesce(j.tenant_id, ''), j.idempotency_key
        limit %(most)s + 1
    ) j
),
crowded as materialized (
    select asked from live group by asked having count(*) > %(most)s
)
select null::uuid, asked, null, null, null, null, null, null from crowded
union all
select * from (
    select j.id, j.name, j.queue, j.tenant_id, j.priority, j.due_at, j.serial_key, j.payload::text
    from live j
    where j.state <> 'running' and j.run_at <= x_now()
        and j.asked not in (select asked from crowded)
        and (%(queues)s::text[] is null or j.queue = any(%(queues)s::text[]))
        and not (j.queue = any(%(shut)s::text[]))
        and not exists (
            select from x_job_queues p where p.name = j.queue and p.paused_at is not null)
    order by j.priority desc,
        row_number() over (partition by j.priority, j.tenant_id order by j.due_at, j.id),
        j.due_at, j.id
    limit %(limit)s
) waiting;

-- name: peek
-- The first due jobs of each head, read without a lock. The heads are those of claims.heads, and
-- the spellings that keep the planner on their indexes are explained there.
select due.*
from unnest(
    %(waiting)s::boolean[], %(queues)s::text[], %(priorities)s::smallint[], %(tenants)s::text[],
    %(ats)s::timestamptz[], %(ids)s::uuid[]
) as h(waiting, queue, priority, tenant, at, id)
cross join lateral (
    select * from (
        select j.id, j.name, j.queue, j.tenant_id, j.priority, j.due_at, j.serial_key,
            j.payload::text
        from x_jobs j
        where not h.waiting and j.state = 'ready' and j.queue = h.queue
            and j.priority = h.priority and coalesce(j.tenant_id, '') collate "C" = h.tenant
            and (j.due_at, j.id) >= (h.at, h.id)
            and j.due_at <= (select x_now()) and j.run_at <= (select x_now())
            and coalesce(j.name = any(%(names)s::text[]), false)
        order by j.due_at, j.id
        limit %(most)s
    ) ready
    union all
    select * from (
        select j.id, j.name, j.queue, j.tenant_id, j.priority, j.due_at, j.serial_key,
            j.payload::text
        from x_jobs j
        where h.waiting and j.state in ('delayed', 'suspended') and j.queue = h.queue
            and j.priority = h.priority and (j.run_at, j.id) >= (h.at, h.id)
            and j.run_at <= (select x_now())
            and coalesce(j.name = any(%(names)s::text[]), false)
        order by j.run_at, j.id
        limit %(most)s
    ) waiting
) due;

-- name: lanes
-- The first live job of each serial key, where it may start: two index descents per key
-- (x_jobs_serial_idx), however many wait behind it. What is not yet due does not count as first.
-- Each row brings the key to go on from, null at the end; where no job may start it comes alone.
with recursive lane(serial_key) as (
    (select j.serial_key from x_jobs j
     where j.serial_key > %(after)s::text
         and j.state in ('ready', 'delayed', 'running', 'suspended')
     order by j.serial_key limit 1)
    union all
    select (select j.serial_key from x_jobs j
            where j.serial_key > lane.serial_key
                and j.state in ('ready', 'delayed', 'running', 'suspended')
            order by j.serial_key limit 1)
    from lane where lane.serial_key is not null
),
seen as materialized (
    select serial_key from lane where serial_key is not null limit %(most)s
)
select (select serial_key from seen offset %(most)s - 1), first.id, first.name, first.queue,
    first.tenant_id, first.priority, first.due_at, first.serial_key, first.payload::text
from (select) at_least_one_row
left join (
    select head.*
    from seen
    cross join lateral (
        select j.id, j.name, j.queue, j.tenant_id, j.priority, j.due_at, j.serial_key, j.payload,
            j.state, j.run_at
        from x_jobs j
        where j.serial_key = seen.serial_key
            and j.state in ('ready', 'delayed', 'running', 'suspended')
            and not (j.state = 'delayed' and j.run_at > (select x_now()))
        order by j.serial_key, j.created_at, j.id
        limit 1
    ) head
    where head.state <> 'running' and head.run_at <= (select x_now())
        and head.name = any(%(names)s::text[])
        and (%(queues)s::text[] is null or head.queue = any(%(queues)s::text[]))
        and not (head.queue = any(%(shut)s::text[]))
        and not exists (
            select from x_job_queues p where p.name = head.queue and p.paused_at is not null)
) first on true;

-- name: strays
-- Jobs that were enqueued before their declaration had a serial key: no lane leads to them. Index:
-- that of live keys.
select j.id, j.name, j.queue, j.tenant_id, j.priority, j.due_at, j.serial_key, j.payload::text
from x_jobs j
where j.name = any(%(names)s::text[]) and j.state in ('ready', 'delayed', 'running', 'suspended')
    and j.state <> 'running' and j.serial_key is null and j.run_at <= x_now()
    and (%(queues)s::text[] is null or j.queue = any(%(queues)s::text[]))
    and not (j.queue = any(%(shut)s::text[]))
    and not exists (
        select from x_job_queues p where p.name = j.queue and p.paused_at is not null)
order by j.name, coalesce(j.tenant_id, ''), j.idempotency_key
limit %(limit)s;

-- name: behind
-- Of jobs that were claimed whatever their lanes: those with an earlier live one of their serial
-- key. Index: x_jobs_serial_idx.
select j.id
from x_jobs j
where j.id = any(%(jobs)s::uuid[]) and j.serial_key is not null and j.id <> (
    select f.id from x_jobs f
    where f.serial_key = j.serial_key
        and f.state in ('ready', 'delayed', 'running', 'suspended')
        and not (f.state = 'delayed' and f.run_at > x_now())
    order by f.serial_key, f.created_at, f.id
    limit 1);

-- name: obstacles
-- For whoever asks why a job waits. The lock is tried, not waited for, and let go at once. Indexes:
-- the primary key and x_jobs_serial_idx.
with tried as materialized (
    select id from x_jobs where id = %(job)s::uuid for no key update skip locked
)
select not exists (select from tried), (
    select nullif(first.id, j.id)
    from x_jobs j
    cross join lateral (
        select f.id from x_jobs f
        where f.serial_key = j.serial_key
            and f.state in ('ready', 'delayed', 'running', 'suspended')
            and not (f.state = 'delayed' and f.run_at > x_now())
        order by f.serial_key, f.created_at, f.id
        limit 1
    ) first
    where j.id = %(job)s::uuid);
