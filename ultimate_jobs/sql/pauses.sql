-- What an operator says of a queue. A queue that nobody spoke of has no row.
--
-- One row is locked, for the time of its statement or of the caller's transaction. No job row is
-- touched: a claim asks this table whether its queue is paused.

-- name: pause
-- The first pause stands: who paused it, and since when, is what the next operator wants to know.
insert into x_job_queues as q (name, paused_at, paused_by, updated_at)
values (%(queue)s::text, x_now(), %(by)s::text, x_now())
on conflict (name) do update
set paused_at = excluded.paused_at, paused_by = excluded.paused_by,
    updated_at = excluded.updated_at
where q.paused_at is null
returning paused_at, paused_by;

-- name: resume
-- Answers a row only where the queue was paused.
update x_job_queues
set paused_at = null, paused_by = null, updated_at = x_now()
where name = %(queue)s::text and paused_at is not null
returning name;

-- name: paused
-- The whole table has a row per queue that was ever paused, so it needs no index.
select name, paused_at, paused_by from x_job_queues where paused_at is not null order by name;
