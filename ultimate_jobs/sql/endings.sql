-- How a claim or a wait ends, and how a job that ended comes back.
--
-- Time is x_now() everywhere. States are literals, because a bound parameter would keep the
-- planner from proving that a partial index applies.
--
-- Lock order. Whoever may wait for a row (enqueue, its share locks, cancel) takes rows in the order
-- of (name, tenant, key) by code point. Whoever works in bulk for a worker (claim, ack, nack,
-- rescue) never waits: it skips what is locked and comes again. So no two of them can deadlock.
-- Only an atomic body's own completion (ack_and_wait) waits, for its one row.

-- name: ack
-- Matched on worker AND token. A row that a caller holds locked (a dedupe, a rerun request) is
-- skipped, not waited for: one open transaction must not hold up a whole batch. The rows are found by
-- id, one by one, and what else must hold is asked in a form that no index can answer: through the
-- index of running jobs it would pass over every claim that this worker ever made, until a vacuum.
-- Where all were completed, as nearly always, the answer is their number and not five hundred ids.
with held as materialized (
    select h.place, d.result
    from unnest(%(ids)s::uuid[], %(tokens)s::bigint[], %(results)s::text[])
        as d(id, token, result)
    cross join lateral (
        select j.ctid as place from x_jobs j
        where j.id = d.id and coalesce(
            j.state = 'running' and j.worker = %(worker)s::uuid and j.token = d.token, false)
        for no key update skip locked
    ) h
),
written as (
    update x_jobs j
    set state = case when j.cancel_requested_at is null then 'completed' else 'cancelled' end,
        result = case when j.cancel_requested_at is null then held.result::jsonb end,
        finished_at = (select x_now()), updated_at = (select x_now())
    from held
    where j.ctid = held.place
    returning j.id, j.run_id, j.token, j.state, j.attempt, j.worker
),
noted as (
    insert into x_job_events (job_id, run_id, type, attempt, at, worker, detail)
    select w.id, w.run_id, 'cancelled', w.attempt, x_now(), w.worker, '{}'
    from written w
    where w.state = 'cancelled'
)
select id, token, state from written
where state <> 'completed' or (select count(*) from written) < cardinality(%(ids)s::uuid[])
union all
select null, count(*), null from written;

-- name: ack_and_wait
-- Inside the body's own transaction, right before its commit. It waits for a row that a caller
-- holds, because skipping it would undo the body's work. Lock order: what the body locked comes
-- first, the job's row last and only for the length of the commit; a caller who took the row before
-- the body's rows deadlocks with it, and the database ends one of the two. No row where the claim
-- was lost or a cancel was asked for: then the body's work is undone. By id and not by ctid, so
-- that the version that the other transaction left behind is met.
update x_jobs j
set state = 'completed', result = %(result)s::jsonb, finished_at = x_now(), updated_at = x_now()
where j.id = %(id)s::uuid and j.state = 'running' and j.worker = %(worker)s::uuid
    and j.token = %(token)s::bigint and j.cancel_requested_at is null
returning j.id;

-- name: nack
-- Two facts, two flags: "counts" is the attempt, "park" is the state. A shed sets neither, so the
-- job stays owed since its old due_at and only run_at moves. A body's own deferral has a cap that
-- only the row can tell as spent. A requested cancel beats them all.
with decided as materialized (
    select h.place, d.*,
        d.deferrals is not null and h.deferrals < d.deferrals as defers,
        case
            when h.cancel_requested_at is not null or d.discard then 'cancelled'
            when d.dead or h.deferrals >= d.deferrals then 'dead'
            when d.park then 'suspended'
            else 'ready'
        end as state
    from unnest(
        %(ids)s::uuid[], %(tokens)s::bigint[], %(counts)s::boolean[], %(parks)s::boolean[],
        %(dead)s::boolean[], %(discards)s::boolean[], %(delays_ms)s::bigint[],
        %(deferrals)s::integer[], %(reasons)s::text[], %(errors)s::text[], %(details)s::text[]
    ) as d(id, token, counts, park, dead, discard, delay_ms, deferrals, reason, error, detail)
    cross join lateral (
        select j.ctid as place, j.deferrals, j.cancel_requested_at from x_jobs j
        where j.id = d.id and coalesce(
            j.state = 'running' and j.worker = %(worker)s::uuid and j.token = d.token, false)
        for no key update skip locked
    ) h
),
written as (
    update x_jobs j
    set state = d.state,
        attempt = case when d.counts then j.attempt else greatest(j.attempt - 1, 0) end,
        deferrals = j.deferrals + d.defers::integer,
        run_at = case when d.state in ('dead', 'cancelled') then j.run_at
            else x_now() + greatest(d.delay_ms, 0) * interval '1 ms' end,
        due_at = case when d.state in ('ready', 'suspended') and (d.counts or d.park or d.defers)
            then x_now() + greatest(d.delay_ms, 0) * interval '1 ms' else j.due_at end,
        last_error = case when d.defers then j.last_error
            else coalesce(d.error, j.last_error) end,
        worker = case when d.state in ('dead', 'cancelled') then j.worker end,
        finished_at = case when d.state in ('dead', 'cancelled') then x_now() end,
        updated_at = x_now()
    from decided d
    where j.ctid = d.place
    returning j.id, j.run_id, d.token, d.state, d.detail, d.discard, d.defers, d.error, d.reason,
        d.counts, d.delay_ms, j.deferrals,
        case when d.counts then j.attempt else j.attempt + 1 end as attempt
),
noted as (
    insert into x_job_events (job_id, run_id, type, attempt, at, worker, detail)
    select w.id, w.run_id,
        case
            when w.state = 'dead' then 'dead'
            when w.discard then 'discarded'
            when w.state = 'cancelled' then 'cancelled'
            when w.defers then 'deferred'
            when w.state = 'suspended' then 'parked'
            else 'failed'
        end,
        w.attempt, x_now(), %(worker)s::uuid,
        case when w.defers then jsonb_build_object(
                'reason', w.reason, 'delay_ms', greatest(w.delay_ms, 0), 'counted', w.counts,
                'deferrals', w.deferrals)
            else coalesce(w.detail, '{}')::jsonb
        end
    from written w
    where w.state <> 'ready' or w.defers or w.error is not null
)
select id, token, state from written;

-- name: still_mine
-- After an ack or nack that wrote fewer rows than asked: what is still ours was only locked.
select j.id, j.token
from unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) as d(id, token)
join x_jobs j on j.id = d.id
where coalesce(j.state = 'running' and j.worker = %(worker)s::uuid and j.token = d.token, false);

-- name: cancel
-- A waiting job ends here; a running one keeps its key and is asked to stop.
with target as materialized (
    select j.id, j.state
    from x_jobs j
    where j.id = any(%(ids)s::uuid[])
        and (%(any_tenant)s::boolean or coalesce(j.tenant_id, '') = coalesce(%(tenant)s::text, ''))
    order by j.name collate "C", coalesce(j.tenant_id, '') collate "C",
        j.idempotency_key collate "C"
    for no key update
),
written as (
    update x_jobs j
    set state = case when target.state = 'running' then 'running' else 'cancelled' end,
        finished_at = case when target.state = 'running' then null else x_now() end,
        cancel_requested_at = x_now(), updated_at = x_now()
    from target
    where j.id = target.id and j.cancel_requested_at is null
        and target.state in ('ready', 'delayed', 'running', 'suspended')
    returning j.id, j.run_id, j.state, j.attempt, j.worker
),
noted as (
    insert into x_job_events (job_id, run_id, type, attempt, at, worker, detail)
    select w.id, w.run_id,
        case when w.state = 'running' then 'cancel_requested' else 'cancelled' end,
        w.attempt, x_now(), w.worker, jsonb_build_object('by', %(by)s::text)
    from written w
)
select target.id, target.state, coalesce(written.state, target.state)
from target
left join written on written.id = target.id;

-- name: cancel_requests
-- Index: x_jobs_running_idx.
select id from x_jobs
where state = 'running' and worker = %(worker)s::uuid and cancel_requested_at is not null;

-- name: now
-- Screens tell what is due by the clock that decides it, not by Python's.
select x_now();

-- name: retry_target
-- Locked, so that two operators who retry the same job do so one after the other.
select id, name, tenant_id, idempotency_key, state
from x_jobs
where id = %(id)s::uuid
    and (%(any_tenant)s::boolean or coalesce(tenant_id, '') = coalesce(%(tenant)s::text, ''))
for no key update;

-- name: retry
-- The same UPDATE raises retry_count: the trigger final_job_stays_final lets nothing else through.
-- The token is never reset, so a zombie of the finished run can write nothing.
with revived as (
    update x_jobs j
    set state = 'ready', attempt = 0, lost_leases = 0, deferrals = 0,
        retry_count = j.retry_count + 1,
        run_at = x_now(), due_at = x_now(), updated_at = x_now(), finished_at = null,
        claimed_at = null, cancel_requested_at = null, worker = null, rerun = null,
        run_id = coalesce(%(fresh_run_id)s::uuid, j.run_id),
        result = case when %(fresh_run_id)s::uuid is null then j.result end
    where j.id = %(id)s::uuid and j.state = %(state)s::text
    returning j.id, j.run_id
),
noted as (
    insert into x_job_events (job_id, run_id, type, attempt, at, detail)
    select id, run_id, 'retried', 0, x_now(), jsonb_build_object(
        'by', %(by)s::text, 'from', %(state)s::text, 'fresh', %(fresh_run_id)s::uuid is not null)
    from revived
)
select id from revived;

-- name: live_holder
-- Names the job that stands in a retry's way; by the unique index of live keys.
select id, state
from x_jobs
where name = %(name)s::text
    and coalesce(tenant_id, '') = coalesce(%(tenant)s::text, '')
    and idempotency_key = %(key)s::text
    and state in ('ready', 'delayed', 'running', 'suspended');
