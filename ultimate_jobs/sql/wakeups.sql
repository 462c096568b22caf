-- Wake-ups: a word to idle workers that a queue has work. Nothing depends on its arrival.
-- Lock order: none. Each of these is a transaction of its own, which has written nothing.

-- name: notify
-- A NOTIFY takes a lock on the whole notification queue until its transaction has ended. Inside one
-- that wrote, it would be held across the flush of the WAL, and every commit of the site would pass
-- through it one by one; a transaction that only notifies has nothing to flush.
select pg_notify('x_jobs', announced.queue)
from unnest(%(queues)s::text[]) as announced (queue);

-- name: listen
-- Ends with its session, so it needs a connection that is nobody else's.
listen x_jobs;

-- name: backend
-- A pooler tells each client a number of its own, and the server's is another.
select pg_backend_pid();
