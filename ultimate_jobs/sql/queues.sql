-- The statements that look at queues as a whole: which have work, how to share a claim among them,
-- and the counts that alarms read.
--
-- They lock nothing. Distinct queues and priorities are found by skipping from value to value in
-- the partial indexes of waiting jobs: one descent for each, whatever the backlog or the history.

-- name: with_work
-- The distinct queues of the two partial claim indexes, by skipping from value to value: the cost
-- is one descent per queue, whatever the backlog.
with recursive ready(queue) as (
    (select queue from x_jobs where state = 'ready' order by queue limit 1)
    union all
    select (select j.queue from x_jobs j
            where j.state = 'ready' and j.queue > ready.queue order by j.queue limit 1)
    from ready where ready.queue is not null
),
waiting(queue) as (
    (select queue from x_jobs where state in ('delayed', 'suspended') order by queue limit 1)
    union all
    select (select j.queue from x_jobs j
            where j.state in ('delayed', 'suspended') and j.queue > waiting.queue
            order by j.queue limit 1)
    from waiting where waiting.queue is not null
)
select queue from ready where queue is not null
union
select queue from waiting where queue is not null;

-- name: first
-- The queues whose first due job comes before that of the others: those that a claim over many
-- looks into. One row per queue is read, where the shares below read up to the limit in each.
select q.queue
from unnest(%(queues)s::text[]) as q(queue)
cross join lateral (
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
        select due.priority, due.due_at
        from level
        cross join lateral (
            select j.priority, j.due_at from x_jobs j
            where j.state = 'ready' and j.queue = q.queue and j.priority = level.priority
                and j.due_at <= x_now() and j.run_at <= x_now()
                and coalesce(j.name = any(%(names)s::text[]), false)
            order by j.due_at, j.id
            limit 1
        ) due
        limit 1
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
        select due.priority, due.due_at
        from level
        cross join lateral (
            select j.priority, j.due_at from x_jobs j
            where j.state in ('delayed', 'suspended') and j.queue = q.queue
                and j.priority = level.priority
                and j.run_at <= x_now()
                and coalesce(j.name = any(%(names)s::text[]), false)
            order by j.run_at, j.id
            limit 1
        ) due
        limit 1
    ) waiting
    order by priority desc, due_at
    limit 1
) head
order by head.priority desc, head.due_at
limit %(most)s;

-- name: shares
-- How many jobs of which queue a fair claim over several queues would take. Unlocked: it only
-- spreads the limit, and the claim looks again. Walks the same indexes in the same way.
select picked.queue, count(*)::integer
from (
    select q.queue
    from unnest(%(queues)s::text[]) as q(queue)
    cross join lateral (
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
            select due.priority, due.due_at, due.id
            from level
            cross join lateral (
                select j.priority, j.due_at, j.id from x_jobs j
                where j.state = 'ready' and j.queue = q.queue and j.priority = level.priority
                    and j.due_at <= x_now() and j.run_at <= x_now()
                    and coalesce(j.name = any(%(names)s::text[]), false)
                order by j.due_at, j.id
                limit %(limit)s
            ) due
            limit %(limit)s
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
            select due.priority, due.due_at, due.id
            from level
            cross join lateral (
                select j.priority, j.due_at, j.id from x_jobs j
                where j.state in ('delayed', 'suspended') and j.queue = q.queue
                    and j.priority = level.priority
                    and j.run_at <= x_now()
                    and coalesce(j.name = any(%(names)s::text[]), false)
                order by j.run_at, j.id
                limit %(limit)s
            ) due
            limit %(limit)s
        ) waiting
    ) due
    order by due.priority desc, due.due_at, due.id
    limit %(limit)s
) picked
group by picked.queue;

-- name: stats
-- By partial indexes only, never by history. Queues and priorities are found by skipping from value
-- to value; within one, what is due stands first. Each count stops at the cap.
with recursive ready_queues(queue) as (
    (select queue from x_jobs where state = 'ready' order by queue limit 1)
    union all
    select (select j.queue from x_jobs j
            where j.state = 'ready' and j.queue > r.queue order by j.queue limit 1)
    from ready_queues r where r.queue is not null
),
waiting_queues(queue) as (
    (select queue from x_jobs where state in ('delayed', 'suspended') order by queue limit 1)
    union all
    select (select j.queue from x_jobs j
            where j.state in ('delayed', 'suspended') and j.queue > w.queue
            order by j.queue limit 1)
    from waiting_queues w where w.queue is not null
),
dead_queues(queue) as (
    (select queue from x_jobs where state = 'dead' order by queue limit 1)
    union all
    select (select j.queue from x_jobs j
            where j.state = 'dead' and j.queue > d.queue order by j.queue limit 1)
    from dead_queues d where d.queue is not null
),
known as (
    select distinct jsonb_array_elements_text(l.info -> 'names') as name
    from x_job_leases l where l.kind = 'worker' and l.expires_at > x_now()
),
ready as (
    select q.queue, level.priority, owed.count as owed, owed.unknown, owed.oldest,
        later.count as later
    from ready_queues q
    cross join lateral (
        with recursive level(priority) as (
            (select j.priority from x_jobs j
             where j.state = 'ready' and j.queue = q.queue order by j.priority desc limit 1)
            union all
            select (select j.priority from x_jobs j
                    where j.state = 'ready' and j.queue = q.queue and j.priority < level.priority
                    order by j.priority desc limit 1)
            from level where level.priority is not null
        )
        select priority from level where priority is not null
    ) level
    cross join lateral (
        select count(*) as count, min(c.due_at) as oldest,
            count(*) filter (where not exists (select from known k where k.name = c.name))
                as unknown
        from (
            select j.due_at, j.name from x_jobs j
            where j.state = 'ready' and j.queue = q.queue and j.priority = level.priority
                and j.due_at <= x_now()
            order by j.due_at
            limit %(cap)s) c
    ) owed
    cross join lateral (
        select count(*) as count from (
            select from x_jobs j
            where j.state = 'ready' and j.queue = q.queue and j.priority = level.priority
                and j.due_at > x_now()
            limit %(cap)s) c
    ) later
    where q.queue is not null
),
waiting as (
    select q.queue, level.priority, owed.count as owed, owed.unknown, owed.oldest,
        later.count as later
    from waiting_queues q
    cross join lateral (
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
        select priority from level where priority is not null
    ) level
    cross join lateral (
        select count(*) as count, min(c.due_at) as oldest,
            count(*) filter (where not exists (select from known k where k.name = c.name))
                as unknown
        from (
            select j.due_at, j.name from x_jobs j
            where j.state in ('delayed', 'suspended') and j.queue = q.queue
                and j.priority = level.priority and j.run_at <= x_now()
            order by j.run_at
            limit %(cap)s) c
    ) owed
    cross join lateral (
        select count(*) as count from (
            select from x_jobs j
            where j.state in ('delayed', 'suspended') and j.queue = q.queue
                and j.priority = level.priority and j.run_at > x_now()
            limit %(cap)s) c
    ) later
    where q.queue is not null
),
counted(queue, owed, later, running, dead, unknown, oldest, capped) as (
    select queue, owed, later, 0, 0, unknown, oldest, greatest(owed, later) >= %(cap)s from ready
    union all
    select queue, owed, later, 0, 0, unknown, oldest, greatest(owed, later) >= %(cap)s from waiting
    union all
    select queue, 0, 0, count(*), 0, 0, null, false
    from x_jobs where state = 'running' group by queue
    union all
    select q.queue, 0, 0, 0, c.count, 0, null, c.count >= %(cap)s
    from dead_queues q
    cross join lateral (
        select count(*) as count from (
            select from x_jobs j where j.state = 'dead' and j.queue = q.queue limit %(cap)s) d
    ) c
    where q.queue is not null
)
select queue, sum(owed)::integer, sum(later)::integer, sum(running)::integer,
    sum(dead)::integer, sum(unknown)::integer,
    extract(epoch from x_now() - min(oldest))::float8, bool_or(capped)
from counted
group by queue
order by queue;
