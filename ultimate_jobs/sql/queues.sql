-- Counts per queue, for screens and monitors.

-- name: stats
-- By partial indexes only, never by history. The heads (see claims.sql) are found by skipping from
-- one to the next; within one, what is due stands first. Of each queue no more than the cap is
-- counted; the age is taken from the heads, so it is right however deep the queue is.
with recursive ready(queue, priority, tenant, due_at, id) as (
    select * from (
        select j.queue, j.priority, coalesce(j.tenant_id, '') collate "C", j.due_at, j.id from x_jobs j
        where j.state = 'ready'
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
                where j.state = 'ready' and j.queue > r.queue
                order by j.queue, j.priority desc, coalesce(j.tenant_id, '') collate "C", j.due_at, j.id
                limit 1
            ) next_queue
        ) either
        limit 1
    ) next
),
waiting(queue, priority, run_at, id) as (
    select * from (
        select j.queue, j.priority, j.run_at, j.id from x_jobs j
        where j.state in ('delayed', 'suspended')
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
                where j.state in ('delayed', 'suspended')
                    and j.queue > w.queue
                order by j.queue, j.priority desc, j.run_at, j.id
                limit 1
            ) next_queue
        ) either
        limit 1
    ) next
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
counted(queue, owed, later, running, dead, unknown, oldest, capped) as (
    select q.queue, owed.count, greatest(total.count - owed.count, 0), 0, 0, owed.unknown,
        q.oldest, greatest(total.count, owed.count) >= %(cap)s
    from (
        select queue, min(due_at) filter (where due_at <= (select x_now())) as oldest
        from ready group by queue
    ) q
    cross join lateral (
        select count(*) as count,
            count(*) filter (where not exists (select from known k where k.name = c.name))
                as unknown
        from (
            select due.name
            from ready r
            cross join lateral (
                select j.name from x_jobs j
                where j.state = 'ready' and j.queue = r.queue and j.priority = r.priority
                    and coalesce(j.tenant_id, '') collate "C" = r.tenant and (j.due_at, j.id) >= (r.due_at, r.id)
                    and j.due_at <= (select x_now())
                order by j.due_at, j.id
                limit %(cap)s
            ) due
            where r.queue = q.queue
            limit %(cap)s) c
    ) owed
    cross join lateral (
        select count(*) as count from (
            select from x_jobs j where j.state = 'ready' and j.queue = q.queue limit %(cap)s) c
    ) total
    union all
    select w.queue, owed.count, later.count, 0, 0, owed.unknown, owed.oldest,
        greatest(owed.count, later.count) >= %(cap)s
    from waiting w
    cross join lateral (
        select count(*) as count, min(c.due_at) as oldest,
            count(*) filter (where not exists (select from known k where k.name = c.name))
                as unknown
        from (
            select j.due_at, j.name from x_jobs j
            where j.state in ('delayed', 'suspended') and j.queue = w.queue
                and j.priority = w.priority and (j.run_at, j.id) >= (w.run_at, w.id)
                and j.run_at <= (select x_now())
            order by j.run_at, j.id
            limit %(cap)s) c
    ) owed
    cross join lateral (
        select count(*) as count from (
            select from x_jobs j
            where j.state in ('delayed', 'suspended') and j.queue = w.queue
                and j.priority = w.priority and j.run_at > (select x_now())
            limit %(cap)s) c
    ) later
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
