-- What a bound on a queue's depth asks before an enqueue. It locks nothing: it is a check.
--
-- Time is x_now(). States are literals, because a bound parameter would keep the planner from
-- proving that a partial index applies.

-- name: waiting
-- Counted by index and only up to the cap. Index: x_jobs_ready_idx, whose rows of a queue stand
-- together, those in backoff among them: a queue whose jobs all fail is full, too. The order is that
-- of the index and keeps the planner on it: a count asks for none, so for a small cap it would read
-- the table instead, and hope to meet such rows soon. Then x_jobs_waiting_idx, priority by priority,
-- where what is due stands first: what is scheduled for later is never read, however much there is.
select least(%(cap)s::integer, (ready.count + due.count)::integer)
from (
    select count(*) as count
    from (
        select from x_jobs j
        where j.state = 'ready' and j.queue = %(queue)s::text
        order by j.priority desc
        limit %(cap)s::integer
    ) r
) ready
cross join (
    with recursive level(priority) as (
        (select j.priority from x_jobs j
         where j.state in ('delayed', 'suspended') and j.queue = %(queue)s::text
         order by j.priority desc limit 1)
        union all
        select (select j.priority from x_jobs j
                where j.state in ('delayed', 'suspended') and j.queue = %(queue)s::text
                    and j.priority < level.priority
                order by j.priority desc limit 1)
        from level where level.priority is not null
    )
    select count(*) as count
    from (
        select from level
        cross join lateral (
            select from x_jobs j
            where j.state in ('delayed', 'suspended') and j.queue = %(queue)s::text
                and j.priority = level.priority and j.run_at <= x_now()
            order by j.run_at, j.id
            limit %(cap)s::integer
        ) w
        limit %(cap)s::integer
    ) d
) due;

-- name: held
-- Which of these keys a live job holds, by the unique index of live keys: such an enqueue adds
-- nothing to the queue. Lateral and with a limit: a semi-join may read the whole index per key where
-- there are no statistics.
select d.place
from unnest(%(names)s::text[], %(tenants)s::text[], %(keys)s::text[])
    with ordinality as d(name, tenant, key, place)
cross join lateral (
    select from x_jobs j
    where j.name = d.name and coalesce(j.tenant_id, '') = d.tenant
        and j.idempotency_key = d.key
        and j.state in ('ready', 'delayed', 'running', 'suspended')
    limit 1
) held;
