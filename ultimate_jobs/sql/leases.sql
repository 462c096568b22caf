-- The statements of x_job_leases, and the sweep that takes jobs from dead workers.
--
-- Lock order: a lease row first, then job rows. Job rows are taken with SKIP LOCKED.

-- name: register_worker
-- A plain insert: a worker's id is fresh, so there is nothing to take over.
insert into x_job_leases (kind, name, holder, token, acquired_at, renewed_at, expires_at, info)
values ('worker', %(worker)s::uuid::text, %(worker)s::uuid, 1, x_now(), x_now(),
    x_now() + %(ttl_ms)s::bigint * interval '1 ms', %(info)s::jsonb);

-- name: renew
-- Every right of one holder at once, and no job row. An expired lease is never revived: its jobs
-- may already run elsewhere. Slots in the lock order of slots.sql, and one that is locked is passed
-- by until the next heartbeat: a taker that stands still must not hold up the worker's own lease.
with slots as materialized (
    select id from x_job_leases
    where holder = %(worker)s::uuid and kind <> 'worker' and expires_at > x_now()
        and exists (
            select from x_job_leases w
            where w.holder = %(worker)s::uuid and w.kind = 'worker' and w.expires_at > x_now())
    order by name collate "C", slot
    for no key update skip locked
)
update x_job_leases
set renewed_at = x_now(), expires_at = x_now() + %(ttl_ms)s::bigint * interval '1 ms'
where (id = any(array(select id from slots)) or (holder = %(worker)s::uuid and kind = 'worker'))
    and expires_at > x_now()
returning kind;

-- name: release_worker
-- Without a lease row its running jobs count as lost, and are rescued at once.
delete from x_job_leases where holder = %(worker)s::uuid;

-- name: claims
-- For a worker whose claim was committed and not answered. Index: x_jobs_running_idx.
select id, token from x_jobs where state = 'running' and worker = %(worker)s::uuid;

-- name: find_lost
-- Index: x_jobs_running_idx, which holds only running jobs. A worker without a lease row counts as
-- expired, so it does not matter in which order rows are swept.
select j.id
from x_jobs j
where j.state = 'running'
    and not exists (
        select 1 from x_job_leases l
        where l.kind = 'worker' and l.holder = j.worker and l.expires_at > x_now())
order by j.claimed_at, j.id
limit %(limit)s;

-- name: rescue
-- The attempt is taken back: a deploy or a crash does not spend what the job's own errors are
-- counted by. Lost leases have a cap of their own, so that a job that kills its worker ends.
with lost as materialized (
    select j.id, j.worker, j.token, j.attempt, j.lost_leases + 1 as lost_leases,
        case
            when j.cancel_requested_at is not null then 'cancelled'
            when j.lost_leases + 1 >= %(max_lost_leases)s::integer then 'dead'
            else 'ready'
        end as state,
        case when j.lost_leases = 0 then 0
            else least(60000, 1000 * 2 ^ least(j.lost_leases, 16))::bigint
        end as delay_ms
    from x_jobs j
    where j.id = any(%(ids)s::uuid[])
        and j.state = 'running'
        and not exists (
            select 1 from x_job_leases l
            where l.kind = 'worker' and l.holder = j.worker and l.expires_at > x_now())
    for no key update of j skip locked
),
written as (
    update x_jobs j
    set state = lost.state, lost_leases = lost.lost_leases,
        attempt = greatest(j.attempt - 1, 0),
        run_at = case when lost.state = 'ready'
            then x_now() + lost.delay_ms * interval '1 ms' else j.run_at end,
        due_at = case when lost.state = 'ready' and lost.delay_ms > 0
            then x_now() + lost.delay_ms * interval '1 ms' else j.due_at end,
        worker = case when lost.state = 'ready' then null else j.worker end,
        finished_at = case when lost.state = 'ready' then null else x_now() end,
        last_error = case when lost.state = 'dead'
            then 'X_WORKER_GONE: job ' || j.id || ' lost its worker ' || lost.lost_leases
                || ' times, the most that MAX_LOST_LEASES allows'
            else j.last_error end,
        updated_at = x_now()
    from lost
    where j.id = lost.id
    returning j.id, j.run_id, j.name, j.state, j.last_error, lost.worker as lost_worker,
        lost.token, lost.attempt, lost.lost_leases, lost.delay_ms
),
noted as (
    insert into x_job_events (job_id, run_id, type, attempt, at, worker, detail)
    select w.id, w.run_id,
        case w.state when 'ready' then 'rescued' else w.state end,
        w.attempt, x_now(), w.lost_worker,
        case w.state
            when 'ready' then jsonb_build_object(
                'lost_leases', w.lost_leases, 'delay_ms', w.delay_ms, 'token', w.token)
            when 'dead' then jsonb_build_object(
                'error_class', 'X_WORKER_GONE',
                'message', substr(w.last_error, length('X_WORKER_GONE: ') + 1), 'traceback', '')
            else '{}'
        end
    from written w
)
select id, name, lost_worker, token, lost_leases, state from written;

-- name: forget_expired
-- Only after its jobs were taken; a lease row that is locked is being renewed or released.
delete from x_job_leases l
where l.id in (
    select e.id from x_job_leases e
    where e.kind = 'worker' and e.expires_at <= x_now()
        and not exists (
            select 1 from x_jobs j where j.state = 'running' and j.worker = e.holder)
    for update skip locked);

-- name: workers
-- The expired ones too: a worker that died is what an operator looks for.
select l.holder, l.acquired_at, l.renewed_at, l.expires_at, l.expires_at <= x_now(), l.info::text,
    (select count(*)::integer from x_jobs j where j.state = 'running' and j.worker = l.holder)
from x_job_leases l
where l.kind = 'worker'
order by l.acquired_at, l.id;
