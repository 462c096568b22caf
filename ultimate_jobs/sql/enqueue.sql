-- How a job comes in: the statements of an enqueue.
--
-- Whoever may wait for a row here (the insert, its share locks) takes rows in the order of
-- (name, tenant, key) by code point, so that no two enqueues can deadlock. For the lock order of all
-- others see endings.sql.

-- name: one
-- One row and one round trip, due at once. Arbiter: x_jobs_name_tenant_idempotency_live_idx, spelled
-- exactly. Above READ COMMITTED a conflict with a row the snapshot cannot see would abort the
-- caller's transaction, so there it inserts nothing and the slow path takes a savepoint first.
-- Planning is a third of its cost, so the clock, which is an inlined function, is named once.
insert into x_jobs (
    id, run_id, name, queue, tenant_id, idempotency_key, payload, priority, max_attempts,
    state, run_at, due_at, created_at, updated_at, traceparent, enqueued_by, serial_key)
select
    %(id)s::uuid, %(run_id)s::uuid, %(name)s::text, %(queue)s::text,
    nullif(%(tenant)s::text, ''), %(key)s::text, %(payload)s::jsonb, %(priority)s::smallint,
    %(max_attempts)s::integer, 'ready', clock.now, clock.now, clock.now, clock.now,
    %(traceparent)s::text, %(enqueued_by)s::text, %(serial_key)s::text
from (select x_now() as now offset 0) clock
where %(any_isolation)s::boolean or current_setting('transaction_isolation') = 'read committed'
on conflict (name, (coalesce(tenant_id, '')), idempotency_key)
    where state in ('ready', 'delayed', 'running', 'suspended')
    do nothing
returning id, run_id, state;

-- name: many
-- A thousand rows, or one that is due later, and one round trip, in the order given: the caller sorts by (name, tenant, key),
-- so that two batches take their keys in one order. A key twice in one list inserts once.
insert into x_jobs (
    id, run_id, name, queue, tenant_id, idempotency_key, payload, priority, max_attempts,
    state, run_at, due_at, created_at, updated_at, traceparent, enqueued_by,
    serial_key)
select
    r.id, r.run_id, r.name, r.queue, nullif(r.tenant, ''), r.key, r.payload::jsonb, r.priority,
    r.max_attempts, case when due.at > (select x_now()) then 'delayed' else 'ready' end, due.at, due.at,
    (select x_now()), (select x_now()), r.traceparent, r.enqueued_by, r.serial_key
from unnest(
    %(id)s::uuid[], %(run_id)s::uuid[], %(name)s::text[], %(queue)s::text[], %(tenant)s::text[],
    %(key)s::text[], %(payload)s::text[], %(priority)s::smallint[], %(max_attempts)s::integer[],
    %(run_after)s::timestamptz[], %(delay_ms)s::bigint[], %(traceparent)s::text[],
    %(enqueued_by)s::text[], %(serial_key)s::text[]
) as r(
    id, run_id, name, queue, tenant, key, payload, priority, max_attempts, run_after, delay_ms,
    traceparent, enqueued_by, serial_key)
cross join lateral (
    select greatest(
        coalesce(r.run_after, (select x_now()) + r.delay_ms * interval '1 ms'), (select x_now())) as at
) due
where %(any_isolation)s::boolean or current_setting('transaction_isolation') = 'read committed'
on conflict (name, (coalesce(tenant_id, '')), idempotency_key)
    where state in ('ready', 'delayed', 'running', 'suspended')
    do nothing
returning id, run_id, state;

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
        'traceparent', %(traceparent)s::text, 'enqueued_by', %(enqueued_by)s::text,
        'serial_key', %(serial_key)s::text),
    updated_at = x_now()
where j.name = %(name)s::text
    and coalesce(j.tenant_id, '') = coalesce(%(tenant)s::text, '')
    and j.idempotency_key = %(key)s::text
    and j.state in ('ready', 'delayed', 'running', 'suspended')
    and j.state not in ('ready', 'delayed', 'suspended')
returning j.id, j.run_id, j.state, j.payload = %(payload)s::jsonb as same_input;
