-- How finished jobs leave, with what belongs to their runs.
--
-- Lock order: job rows first, taken with SKIP LOCKED, then their events and steps. Only final rows
-- are locked, so no claim meets one. Time is x_now(); a NULL period keeps a state for ever.

-- name: prune
-- The primary key is walked from a cursor, so that no index exists for retention alone: ids are in
-- the order of their creation. The upper end stands outside of the LIMIT: with both ends inside, the
-- planner may take a stale guess of the range for a reason to read and sort all of it.
-- A job that was retried meanwhile is live again. Its row is judged by its newest version twice:
-- where it is locked, and in the DELETE itself.
-- An event that is younger than a day would be refused by the trigger event_is_kept, and the whole
-- batch with it, at every try; so its job is kept as long.
with kept(state, until) as materialized (
    values
        ('completed', x_now() - %(completed_ms)s::bigint * interval '1 ms'),
        ('cancelled', x_now() - %(cancelled_ms)s::bigint * interval '1 ms'),
        ('dead', x_now() - %(dead_ms)s::bigint * interval '1 ms')
),
passed as materialized (
    select near.id, near.state, near.ended_at
    from (
        select j.id, j.state, coalesce(j.finished_at, j.updated_at) as ended_at
        from x_jobs j
        where j.id > %(after)s::uuid
        order by j.id
        limit %(limit)s::integer
    ) near
    where near.id <= %(through)s::uuid
),
old as materialized (
    select j.id
    from x_jobs j
    where j.id = any(array(
            select passed.id from passed
            join kept on kept.state = passed.state and passed.ended_at < kept.until))
        and not exists (
            select from x_job_events e
            where e.job_id = j.id and e.at > x_now() - interval '1 day')
    for update of j skip locked
),
removed as (
    delete from x_jobs j
    using kept
    where j.id = any(array(select old.id from old))
        and j.state = kept.state and coalesce(j.finished_at, j.updated_at) < kept.until
    returning j.id, j.run_id, j.state
),
forgotten as (
    delete from x_job_events e
    where e.job_id = any(array(select removed.id from removed))
    returning e.run_id
),
undone as (
    delete from x_job_steps s
    where s.run_id = any(array(
        select removed.run_id from removed union select forgotten.run_id from forgotten))
    returning 1
)
select
    (select passed.id from passed order by passed.id desc limit 1),
    (select count(*) from passed),
    (select count(*) from removed where state = 'completed'),
    (select count(*) from removed where state = 'cancelled'),
    (select count(*) from removed where state = 'dead'),
    (select count(*) from forgotten),
    (select count(*) from undone);

-- name: survey
-- What prune would remove of the same stretch, by the same rules; it locks nothing.
with kept(state, until) as materialized (
    values
        ('completed', x_now() - %(completed_ms)s::bigint * interval '1 ms'),
        ('cancelled', x_now() - %(cancelled_ms)s::bigint * interval '1 ms'),
        ('dead', x_now() - %(dead_ms)s::bigint * interval '1 ms')
),
passed as materialized (
    select near.*
    from (
        select j.id, j.run_id, j.state, coalesce(j.finished_at, j.updated_at) as ended_at
        from x_jobs j
        where j.id > %(after)s::uuid
        order by j.id
        limit %(limit)s::integer
    ) near
    where near.id <= %(through)s::uuid
),
old as materialized (
    select passed.id, passed.run_id, passed.state
    from passed
    join kept on kept.state = passed.state and passed.ended_at < kept.until
    where not exists (
        select from x_job_events e
        where e.job_id = passed.id and e.at > x_now() - interval '1 day')
),
history as materialized (
    select e.run_id from x_job_events e where e.job_id = any(array(select old.id from old))
)
select
    (select passed.id from passed order by passed.id desc limit 1),
    (select count(*) from passed),
    (select count(*) from old where state = 'completed'),
    (select count(*) from old where state = 'cancelled'),
    (select count(*) from old where state = 'dead'),
    (select count(*) from history),
    (select count(*) from x_job_steps s where s.run_id = any(array(
        select old.run_id from old union select history.run_id from history)));
