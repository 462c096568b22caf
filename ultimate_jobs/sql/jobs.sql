-- The statements of x_jobs.
--
-- Time is x_now() everywhere. States are literals, because a bound parameter would keep the
-- planner from proving that a partial index applies.
--
-- Lock order. Whoever may wait for a row (enqueue, its share locks, cancel) takes rows in the order
-- of (name, tenant, key) by code point. Whoever works in bulk for a worker (claim, ack, nack,
-- rescue) never waits: it skips what is locked and comes again. So no two of them can deadlock.

-- name: enqueue_one
-- One row and one round trip. Arbiter: x_jobs_name_tenant_idempotency_live_idx, spelled exactly.
-- Above READ COMMITTED a conflict with a row the snapshot cannot see would abort the caller's
-- transaction, so there it inserts nothing and the slow path takes a savepoint first.
insert into x_jobs (
    id, run_id, name, queue, tenant_id, idempotency_key, payload, priority, max_attempts,
    state, run_at, due_at, created_at, updated_at, traceparent, enqueued_by)
select
    %(id)s::uuid, %(run_id)s::uuid, %(name)s::text, %(queue)s::text,
    nullif(%(tenant)s::text, ''), %(key)s::text, %(payload)s::jsonb, %(priority)s::smallint, %(max_attempts)s::integer,
    case when due.at > x_now() then 'delayed' else 'ready' end, due.at, due.at, x_now(), x_now(),
    %(traceparent)s::text, %(enqueued_by)s::text
from (
    select greatest(
        coalesce(%(run_after)s::timestamptz, x_now() + %(delay_ms)s::bigint * interval '1 ms'),
        x_now()) as at
) due
where %(any_isolation)s::boolean or current_setting('transaction_isolation') = 'read committed'
on conflict (name, (coalesce(tenant_id, '')), idempotency_key)
    where state in ('ready', 'delayed', 'running', 'suspended')
    do nothing
returning id, run_id, state;

-- name: enqueue_many
-- A thousand rows and one round trip, in the order given: the caller sorts by (name, tenant, key),
-- so that two batches take their keys in one order. A key twice in one list inserts once.
insert into x_jobs (
    id, run_id, name, queue, tenant_id, idempotency_key, payload, priority, max_attempts,
    state, run_at, due_at, created_at, updated_at, traceparent, enqueued_by)
select
    r.id, r.run_id, r.name, r.queue, nullif(r.tenant, ''), r.key, r.payload::jsonb, r.priority,
    r.max_attempts, case when due.at > x_now() then 'delayed' else 'ready' end, due.at, due.at,
    x_now(), x_now(), r.traceparent, r.enqueued_by
from unnest(
    %(id)s::uuid[], %(run_id)s::uuid[], %(name)s::text[], %(queue)s::text[], %(tenant)s::text[],
    %(key)s::text[], %(payload)s::text[], %(priority)s::smallint[], %(max_attempts)s::integer[],
    %(run_after)s::timestamptz[], %(delay_ms)s::bigint[], %(traceparent)s::text[],
    %(enqueued_by)s::text[]
) as r(
    id, run_id, name, queue, tenant, key, payload, priority, max_attempts, run_after, delay_ms,
    traceparent, enqueued_by)
cross join lateral (
    select greatest(
        coalesce(r.run_after, x_now() + r.delay_ms * interval '1 ms'), x_now()) as at
) due
where %(any_isolation)s::boolean or current_setting('transaction_isolation') = 'read committed'
on conflict (name, (coalesce(tenant_id, '')), idempotency_key)
    where state in ('ready', 'delayed', 'running', 'suspended')
    do nothing
returning id, run_id, state;

-- name: now
-- Screens tell what is due by the clock that decides it, not by Python's.
select x_now();

-- name: isolation
-- Asked only after an enqueue was refused or deduped, so the common path pays no round trip for it.
select current_setting('transaction_isolation');

-- name: share_waiting
-- A caller that changed data and then deduped keeps the waiting job from being claimed until it
-- commits: claims skip a share-locked row. The predicate is the index's, so that it is used. Lateral,
-- for a join of the two may read the table, or the whole index, once per key: where the statistics
-- are older than the backlog, 30,000 pages for one key of 35,000 live ones instead of 6.
select held.id, held.run_id, held.state, asked.position,
    held.payload = asked.payload::jsonb as same_input
from unnest(%(name)s::text[], %(tenant)s::text[], %(key)s::text[], %(payload)s::text[])
    with ordinality as asked(name, tenant, key, payload, position)
cross join lateral (
    select j.id, j.run_id, j.state, j.payload
    from x_jobs j
    where j.name = asked.name
        and coalesce(j.tenant_id, '') = coalesce(asked.tenant, '')
        and j.idempotency_key = asked.key
        and j.state in ('ready', 'delayed', 'running', 'suspended')
        and j.state <> 'running'
    for share
) held
order by asked.position;

-- name: find_running
-- Not locked: the worker's ack must not wait for the caller's commit.
-- The state is asked outside, or x_jobs_running_idx would be read whole for each key.
select held.id, held.run_id, held.state, asked.position,
    held.payload = asked.payload::jsonb as same_input
from unnest(%(name)s::text[], %(tenant)s::text[], %(key)s::text[], %(payload)s::text[])
    with ordinality as asked(name, tenant, key, payload, position)
cross join lateral (
    select j.id, j.run_id, j.state, j.payload
    from x_jobs j
    where j.name = asked.name
        and coalesce(j.tenant_id, '') = coalesce(asked.tenant, '')
        and j.idempotency_key = asked.key
        and j.state in ('ready', 'delayed', 'running', 'suspended')
    limit 1
) held
where held.state = 'running';

-- name: request_rerun
-- Kept on the running row, and the row stays locked until the caller commits, so the run cannot end
-- in between unseen: its ack skips the row and comes again. The trigger run_again inserts the
-- follow-up in whatever statement ends the run. "= 'running'" might read x_jobs_running_idx whole.
update x_jobs j
set rerun = jsonb_build_object(
        'id', %(id)s::uuid, 'run_id', %(run_id)s::uuid, 'queue', %(queue)s::text,
        'payload', %(payload)s::jsonb, 'priority', %(priority)s::smallint,
        'max_attempts', %(max_attempts)s::integer,
        'run_at', greatest(
            coalesce(%(run_after)s::timestamptz, x_now() + %(delay_ms)s::bigint * interval '1 ms'),
            x_now()),
        'traceparent', %(traceparent)s::text, 'enqueued_by', %(enqueued_by)s::text),
    updated_at = x_now()
where j.name = %(name)s::text
    and coalesce(j.tenant_id, '') = coalesce(%(tenant)s::text, '')
    and j.idempotency_key = %(key)s::text
    and j.state in ('ready', 'delayed', 'running', 'suspended')
    and j.state not in ('ready', 'delayed', 'suspended')
returning j.id, j.run_id, j.state, j.payload = %(payload)s::jsonb as same_input;

-- name: claim
-- Indexes: x_jobs_ready_idx, and x_jobs_waiting_idx for what was delayed or parked and is due. Both
-- are walked priority by priority: within one, what is not yet due stands at the end and is never
-- passed over, so a million jobs in backoff or in the future cost nothing. The recursion yields the
-- priorities in descending order, and the LIMIT above it stops the walk.
-- Three spellings keep the planner on these indexes whatever its statistics say; without them it
-- reads the whole backlog or table per claim. "coalesce(name = any)" cannot use the index of keys,
-- and counts as true for every second row, however rare the names; "most" is a constant where
-- "wanted" is a guess of a tenth of the rows; "= any(array(...))" cannot become a hash join over all
-- rows. Measured on 100,000 finished and 20,000 ready rows: 170 ms became 11 ms.
-- The CTE is materialised: a LIMIT inside an UPDATE's sub-select may be run more than once by the
-- planner and then claims more than was asked.
with candidate as materialized (
    select due.id
    from unnest(%(queues)s::text[], %(wanted)s::integer[]) as q(queue, wanted)
    cross join lateral (
        select both_kinds.id
        from (
            select * from (
                with recursive level(priority) as (
                    (select j.priority from x_jobs j
                     where j.state = 'ready' and j.queue = q.queue
                     order by j.priority desc limit 1)
                    union all
                    select (select j.priority from x_jobs j
                            where j.state = 'ready' and j.queue = q.queue
                                and j.priority < level.priority
                            order by j.priority desc limit 1)
                    from level where level.priority is not null
                )
                select due.id, due.priority, due.due_at
                from level
                cross join lateral (
                    select j.id, j.priority, j.due_at from x_jobs j
                    where j.state = 'ready' and j.queue = q.queue
                        and j.priority = level.priority
                        and j.due_at <= x_now() and j.run_at <= x_now()
                        and coalesce(j.name = any(%(names)s::text[]), false)
                    order by j.due_at, j.id
                    limit %(most)s
                    for no key update skip locked
                ) due
                limit q.wanted
            ) ready
            union all
            select * from (
                with recursive level(priority) as (
                    (select j.priority from x_jobs j
                     where j.state in ('delayed', 'suspended') and j.queue = q.queue
                     order by j.priority desc limit 1)
                    union all
                    select (select j.priority from x_jobs j
                            where j.state in ('delayed', 'suspended') and j.queue = q.queue
                                and j.priority < level.priority
                            order by j.priority desc limit 1)
                    from level where level.priority is not null
                )
                select due.id, due.priority, due.due_at
                from level
                cross join lateral (
                    select j.id, j.priority, j.due_at from x_jobs j
                    where j.state in ('delayed', 'suspended') and j.queue = q.queue
                        and j.priority = level.priority
                        and j.run_at <= x_now()
                        and coalesce(j.name = any(%(names)s::text[]), false)
                    order by j.run_at, j.id
                    limit %(most)s
                    for no key update skip locked
                ) due
                limit q.wanted
            ) waiting
        ) both_kinds
        order by both_kinds.priority desc, both_kinds.due_at, both_kinds.id
        limit q.wanted
    ) due
)
update x_jobs j
set state = 'running', worker = %(worker)s::uuid, token = j.token + 1, attempt = j.attempt + 1,
    claimed_at = x_now(), updated_at = x_now()
where j.id = any(array(select candidate.id from candidate))
returning
    j.id, j.run_id, j.name, j.queue, j.tenant_id, j.idempotency_key, j.payload::text, j.token,
    j.attempt, j.max_attempts, j.lost_leases, j.retry_count, j.priority, j.due_at, j.traceparent;

-- name: ack
-- Matched on worker AND token. A row that a caller holds locked (a dedupe, a rerun request) is
-- skipped, not waited for: one open transaction must not hold up a whole batch.
with held as materialized (
    select j.ctid as place, d.result
    from unnest(%(ids)s::uuid[], %(tokens)s::bigint[], %(results)s::text[])
        as d(id, token, result)
    join x_jobs j on j.id = d.id
    where j.state = 'running' and j.worker = %(worker)s::uuid and j.token = d.token
    for no key update of j skip locked
),
written as (
    update x_jobs j
    set state = case when j.cancel_requested_at is null then 'completed' else 'cancelled' end,
        result = case when j.cancel_requested_at is null then held.result::jsonb end,
        finished_at = x_now(), updated_at = x_now()
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
select id, token, state from written;

-- name: nack
-- Two facts, two flags: "counts" is the attempt, "park" is the state. A shed sets neither, so the
-- job stays owed since its old due_at and only run_at moves. A requested cancel beats them all.
with decided as materialized (
    select j.ctid as place, d.*,
        case
            when j.cancel_requested_at is not null then 'cancelled'
            when d.dead then 'dead'
            when d.park then 'suspended'
            else 'ready'
        end as state
    from unnest(
        %(ids)s::uuid[], %(tokens)s::bigint[], %(counts)s::boolean[], %(parks)s::boolean[],
        %(dead)s::boolean[], %(delays_ms)s::bigint[], %(errors)s::text[], %(details)s::text[]
    ) as d(id, token, counts, park, dead, delay_ms, error, detail)
    join x_jobs j on j.id = d.id
    where j.state = 'running' and j.worker = %(worker)s::uuid and j.token = d.token
    for no key update of j skip locked
),
written as (
    update x_jobs j
    set state = d.state,
        attempt = case when d.counts then j.attempt else greatest(j.attempt - 1, 0) end,
        run_at = case when d.state in ('dead', 'cancelled') then j.run_at
            else x_now() + d.delay_ms * interval '1 ms' end,
        due_at = case when d.state in ('ready', 'suspended') and (d.counts or d.park)
            then x_now() + d.delay_ms * interval '1 ms' else j.due_at end,
        last_error = coalesce(d.error, j.last_error),
        worker = case when d.state in ('dead', 'cancelled') then j.worker end,
        finished_at = case when d.state in ('dead', 'cancelled') then x_now() end,
        updated_at = x_now()
    from decided d
    where j.ctid = d.place
    returning j.id, j.run_id, d.token, d.state, d.detail, d.park, d.error,
        case when d.counts then j.attempt else j.attempt + 1 end as attempt
),
noted as (
    insert into x_job_events (job_id, run_id, type, attempt, at, worker, detail)
    select w.id, w.run_id,
        case w.state
            when 'dead' then 'dead' when 'cancelled' then 'cancelled'
            when 'suspended' then 'parked' else 'failed'
        end,
        w.attempt, x_now(), %(worker)s::uuid, coalesce(w.detail, '{}')::jsonb
    from written w
    where w.state <> 'ready' or w.error is not null
)
select id, token, state from written;

-- name: still_mine
-- After an ack or nack that wrote fewer rows than asked: what is still ours was only locked.
select j.id, j.token
from unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) as d(id, token)
join x_jobs j on j.id = d.id
where j.state = 'running' and j.worker = %(worker)s::uuid and j.token = d.token;

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
    set state = 'ready', attempt = 0, lost_leases = 0, retry_count = j.retry_count + 1,
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

-- name: cancel_requests
-- Index: x_jobs_running_idx.
select id from x_jobs
where state = 'running' and worker = %(worker)s::uuid and cancel_requested_at is not null;
