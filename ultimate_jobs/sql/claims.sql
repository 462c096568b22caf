-- How a worker takes jobs.
--
-- Ready jobs stand in x_jobs_ready_idx by queue, priority and tenant, and within those three by due
-- time and id. Such a line, or the one line of delayed and parked jobs of a queue and priority in
-- x_jobs_waiting_idx, is here called a head. "heads" finds those with something due; "claim" takes
-- from each of them its share. A worker asks for heads once per poll interval and claims from the
-- ones it knows in between, each time from where it left off: whatever it has claimed lies before
-- that point as a dead entry, and a claim that began at the front would pass over all of them.
--
-- Time is x_now() everywhere, in a sub-select of its own where it is asked once per statement.
-- States are literals, because a bound parameter would keep the planner from proving that a partial
-- index applies. Four spellings keep the planner on these two indexes whatever its statistics say;
-- without them it reads the whole backlog or table: "coalesce(name = any(...), false)" cannot use
-- the index of keys and counts as true for every second row, however rare the names; a constant in
-- an inner LIMIT, where a column would be guessed as a tenth of the rows; "ctid = any(array())", which
-- cannot become a hash join over all rows; and "due_at >=" beside the comparison of the pair, which
-- says nothing new, and makes the planner expect one row: where it expects many it reads a whole
-- queue by bitmap and sorts it.

-- name: heads
-- Each step seeks the first row behind all of one head, so it costs an index descent per head, and
-- entries of claimed rows are passed once. What is not due stands behind what is. Paused queues have
-- no heads. "after" goes on where a survey that was cut at its limit ended.
with recursive ready(queue, priority, tenant, due_at, id) as (
    select first.*
    from unnest(%(queues)s::text[]) as q(queue)
    cross join lateral (
        select j.queue, j.priority, coalesce(j.tenant_id, '') collate "C", j.due_at, j.id from x_jobs j
        where j.state = 'ready' and j.queue = q.queue
        order by j.priority desc, coalesce(j.tenant_id, '') collate "C", j.due_at, j.id
        limit 1
    ) first
    union all
    select * from (
        select j.queue, j.priority, coalesce(j.tenant_id, '') collate "C", j.due_at, j.id from x_jobs j
        where j.state = 'ready' and %(queues)s::text[] is null
        order by j.queue, j.priority desc, coalesce(j.tenant_id, '') collate "C", j.due_at, j.id
        limit 1
    ) first_of_all
    union all
    select next.*
    from ready r
    cross join lateral (
        select * from (
            select * from (
                select j.queue, j.priority, coalesce(j.tenant_id, '') collate "C", j.due_at, j.id from x_jobs j
                where j.state = 'ready' and j.queue = r.queue and j.priority = r.priority
                    and coalesce(j.tenant_id, '') collate "C" > r.tenant
                order by coalesce(j.tenant_id, '') collate "C", j.due_at, j.id
                limit 1
            ) next_tenant
            union all
            select * from (
                select j.queue, j.priority, coalesce(j.tenant_id, '') collate "C", j.due_at, j.id from x_jobs j
                where j.state = 'ready' and j.queue = r.queue and j.priority < r.priority
                order by j.priority desc, coalesce(j.tenant_id, '') collate "C", j.due_at, j.id
                limit 1
            ) next_priority
            union all
            select * from (
                select j.queue, j.priority, coalesce(j.tenant_id, '') collate "C", j.due_at, j.id from x_jobs j
                where j.state = 'ready' and %(queues)s::text[] is null and j.queue > r.queue
                order by j.queue, j.priority desc, coalesce(j.tenant_id, '') collate "C", j.due_at, j.id
                limit 1
            ) next_queue
        ) either
        limit 1
    ) next
),
waiting(queue, priority, run_at, id) as (
    select first.*
    from unnest(%(queues)s::text[]) as q(queue)
    cross join lateral (
        select j.queue, j.priority, j.run_at, j.id from x_jobs j
        where j.state in ('delayed', 'suspended') and j.queue = q.queue
        order by j.priority desc, j.run_at, j.id
        limit 1
    ) first
    union all
    select * from (
        select j.queue, j.priority, j.run_at, j.id from x_jobs j
        where j.state in ('delayed', 'suspended') and %(queues)s::text[] is null
        order by j.queue, j.priority desc, j.run_at, j.id
        limit 1
    ) first_of_all
    union all
    select next.*
    from waiting w
    cross join lateral (
        select * from (
            select * from (
                select j.queue, j.priority, j.run_at, j.id from x_jobs j
                where j.state in ('delayed', 'suspended') and j.queue = w.queue
                    and j.priority < w.priority
                order by j.priority desc, j.run_at, j.id
                limit 1
            ) next_priority
            union all
            select * from (
                select j.queue, j.priority, j.run_at, j.id from x_jobs j
                where j.state in ('delayed', 'suspended') and %(queues)s::text[] is null
                    and j.queue > w.queue
                order by j.queue, j.priority desc, j.run_at, j.id
                limit 1
            ) next_queue
        ) either
        limit 1
    ) next
)
select false as waiting, r.queue, r.priority, r.tenant, due.at, due.id
from ready r
cross join lateral (
    select j.due_at as at, j.id from x_jobs j
    where j.state = 'ready' and j.queue = r.queue and j.priority = r.priority
        and coalesce(j.tenant_id, '') collate "C" = r.tenant
        and (j.due_at, j.id) >= (r.due_at, r.id) and j.due_at >= r.due_at
        and j.due_at <= (select x_now()) and j.run_at <= (select x_now())
        and coalesce(j.name = any(%(names)s::text[]), false)
    order by j.due_at, j.id
    limit 1
) due
where not exists (
    select from x_job_queues p where p.name = r.queue and p.paused_at is not null)
union all
select true, w.queue, w.priority, '', due.at, due.id
from waiting w
cross join lateral (
    select j.run_at as at, j.id from x_jobs j
    where j.state in ('delayed', 'suspended') and j.queue = w.queue
        and j.priority = w.priority and (j.run_at, j.id) >= (w.run_at, w.id)
        and j.run_at >= w.run_at and j.run_at <= (select x_now())
        and coalesce(j.name = any(%(names)s::text[]), false)
    order by j.run_at, j.id
    limit 1
) due
where not exists (
    select from x_job_queues p where p.name = w.queue and p.paused_at is not null);

-- name: shares
-- How much each head would give of what all heads of its group give by age: the quota of a group is
-- for all of them. Unlocked, for it only spreads a claim, and the claim looks again.
select counted.position, count(*)::integer
from (
    select h.position, h.quota,
        row_number() over (partition by h.party order by due.due_at, due.id) as place
    from unnest(
        %(waiting)s::boolean[], %(queues)s::text[], %(priorities)s::smallint[],
        %(tenants)s::text[], %(ats)s::timestamptz[], %(ids)s::uuid[], %(quotas)s::integer[],
        %(parties)s::integer[]
    ) with ordinality as h(waiting, queue, priority, tenant, at, id, quota, party, position)
    cross join lateral (
        (select * from (
            select j.due_at, j.id from x_jobs j
            where not h.waiting and j.state = 'ready' and j.queue = h.queue
                and j.priority = h.priority and coalesce(j.tenant_id, '') collate "C" = h.tenant
                and (j.due_at, j.id) >= (h.at, h.id) and j.due_at >= h.at
                and j.due_at <= (select x_now()) and j.run_at <= (select x_now())
                and coalesce(j.name = any(%(names)s::text[]), false)
            order by j.due_at, j.id
            limit %(most)s
        ) ready
        limit h.quota)
        union all
        (select * from (
            select j.due_at, j.id from x_jobs j
            where h.waiting and j.state in ('delayed', 'suspended') and j.queue = h.queue
                and j.priority = h.priority and (j.run_at, j.id) >= (h.at, h.id)
                and j.run_at >= h.at
                and j.run_at <= (select x_now())
                and coalesce(j.name = any(%(names)s::text[]), false)
            order by j.run_at, j.id
            limit %(most)s
        ) waiting
        limit h.quota)
    ) due
) counted
where counted.place <= counted.quota
group by counted.position;

-- name: claim_line
-- What "claim" does, from one line of ready jobs: nearly every claim of a site with one queue. It is
-- a statement of its own because an idle server takes half as long to begin with it, and that is what
-- an idle worker waits for.
with candidate as materialized (
    select j.ctid as place from x_jobs j
    where j.state = 'ready' and j.queue = %(queue)s::text and j.priority = %(priority)s::smallint
        and coalesce(j.tenant_id, '') collate "C" = %(tenant)s::text
        and (j.due_at, j.id) >= (%(at)s::timestamptz, %(id)s::uuid)
        and j.due_at >= %(at)s::timestamptz
        and j.due_at <= (select x_now()) and j.run_at <= (select x_now())
        and coalesce(j.name = any(%(names)s::text[]), false)
        and (select p.paused_at from x_job_queues p where p.name = %(queue)s::text) is null
    order by j.due_at, j.id
    limit %(wanted)s::integer
    for no key update skip locked
)
update x_jobs j
set state = 'running', worker = %(worker)s::uuid, token = j.token + 1, attempt = j.attempt + 1,
    claimed_at = (select x_now()), updated_at = (select x_now())
where j.ctid = any(array(select candidate.place from candidate))
returning
    j.id, j.run_id, j.name, j.queue, j.tenant_id, j.idempotency_key, j.payload::text, j.token,
    j.attempt, j.max_attempts, j.lost_leases, j.retry_count, j.priority, j.due_at, j.traceparent,
    j.run_at;

-- name: claim
-- From each head its quota, in the order of the heads, until there are as many as wanted: a nested
-- loop yields them in that order, and the LIMIT above it stops the walk before more rows are locked.
-- Whether a queue is paused is a sub-select for that reason: an anti join may reorder the heads.
-- The CTE is materialised: a LIMIT inside an UPDATE's sub-select may be run more than once by the
-- planner and then claims more than was asked. By place and not by id: the rows are locked, so they
-- stay where they are, and one index descent for each is spared.
with candidate as materialized (
    select due.place
    from unnest(
        %(waiting)s::boolean[], %(queues)s::text[], %(priorities)s::smallint[],
        %(tenants)s::text[], %(ats)s::timestamptz[], %(ids)s::uuid[], %(quotas)s::integer[]
    ) with ordinality as h(waiting, queue, priority, tenant, at, id, quota, position)
    cross join lateral (
        (select * from (
            select j.ctid as place from x_jobs j
            where not h.waiting and j.state = 'ready' and j.queue = h.queue
                and j.priority = h.priority and coalesce(j.tenant_id, '') collate "C" = h.tenant
                and (j.due_at, j.id) >= (h.at, h.id) and j.due_at >= h.at
                and j.due_at <= (select x_now()) and j.run_at <= (select x_now())
                and coalesce(j.name = any(%(names)s::text[]), false)
            order by j.due_at, j.id
            limit %(most)s
            for no key update skip locked
        ) ready
        limit h.quota)
        union all
        (select * from (
            select j.ctid as place from x_jobs j
            where h.waiting and j.state in ('delayed', 'suspended') and j.queue = h.queue
                and j.priority = h.priority and (j.run_at, j.id) >= (h.at, h.id)
                and j.run_at >= h.at
                and j.run_at <= (select x_now())
                and coalesce(j.name = any(%(names)s::text[]), false)
            order by j.run_at, j.id
            limit %(most)s
            for no key update skip locked
        ) waiting
        limit h.quota)
        limit h.quota
    ) due
    where (select p.paused_at from x_job_queues p where p.name = h.queue) is null
    limit %(wanted)s
)
update x_jobs j
set state = 'running', worker = %(worker)s::uuid, token = j.token + 1, attempt = j.attempt + 1,
    claimed_at = (select x_now()), updated_at = (select x_now())
where j.ctid = any(array(select candidate.place from candidate))
returning
    j.id, j.run_id, j.name, j.queue, j.tenant_id, j.idempotency_key, j.payload::text, j.token,
    j.attempt, j.max_attempts, j.lost_leases, j.retry_count, j.priority, j.due_at, j.traceparent,
    j.run_at;
