-- Bodies of the triggers that models declare. Each trigger has a WHEN clause, so that a claim or an
-- ack evaluates one expression and calls nothing.

-- name: final_job_stays_final
-- A late write of a worker that lost its claim must not revive a run that has ended.
RAISE EXCEPTION 'x_jobs: job % is % and becomes live only where the same UPDATE raises retry_count',
    OLD.id, OLD.state USING ERRCODE = 'check_violation';

-- name: run_again
-- The one place that follows a run with another: whatever ends the run (ack, nack, rescue, cancel
-- or plain SQL) ends here, in its own transaction. By now the old row is final, so the key is free;
-- an enqueuer that waits for this transaction finds the new row. An id that is stored already is a
-- request delivered twice, and must not keep the run from ending.
WITH follow AS (
    INSERT INTO x_jobs (
        id, run_id, name, queue, tenant_id, idempotency_key, payload, priority, max_attempts,
        state, run_at, due_at, created_at, updated_at, traceparent, enqueued_by, serial_key)
    SELECT (NEW.rerun ->> 'id')::uuid, (NEW.rerun ->> 'run_id')::uuid, NEW.name,
        NEW.rerun ->> 'queue', NEW.tenant_id, NEW.idempotency_key, NEW.rerun -> 'payload',
        (NEW.rerun ->> 'priority')::smallint, (NEW.rerun ->> 'max_attempts')::integer,
        CASE WHEN (NEW.rerun ->> 'run_at')::timestamptz > x_now() THEN 'delayed' ELSE 'ready' END,
        greatest((NEW.rerun ->> 'run_at')::timestamptz, x_now()),
        greatest((NEW.rerun ->> 'run_at')::timestamptz, x_now()),
        x_now(), x_now(), NEW.rerun ->> 'traceparent', NEW.rerun ->> 'enqueued_by',
        NEW.rerun ->> 'serial_key'
    ON CONFLICT (id) DO NOTHING
    RETURNING id
)
INSERT INTO x_job_events (job_id, run_id, type, attempt, at, worker, detail)
SELECT NEW.id, NEW.run_id, 'rerun', NEW.attempt, x_now(), NEW.worker,
    jsonb_build_object('job_id', follow.id)
FROM follow;
RETURN NULL;

-- name: event_is_never_updated
-- History that can be rewritten proves nothing.
RAISE EXCEPTION 'x_job_events: event % is history and is never updated', OLD.id
    USING ERRCODE = 'check_violation';

-- name: event_is_kept
-- A retention that is set wrong, or a DELETE by hand, cannot remove what just happened.
RAISE EXCEPTION 'x_job_events: event % is younger than the retention floor of one day', OLD.id
    USING ERRCODE = 'check_violation';

-- name: published_at_is_written_once
-- The first relay to publish wins; a second stamp would hide a double send.
RAISE EXCEPTION 'x_outbox: message % was published at % already', OLD.id, OLD.published_at
    USING ERRCODE = 'check_violation';

-- name: finished_backfill_is_read_only
-- The ledger tells what was done; a rerun is a row of its own.
RAISE EXCEPTION 'x_backfills: pass % is % and is read-only', OLD.id, OLD.status
    USING ERRCODE = 'check_violation';

-- name: clock
-- The one SQL source of now. The offset is for tests; being stable and inlined, the expression
-- stays usable as an index bound.
CREATE OR REPLACE FUNCTION x_now() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT statement_timestamp()
        + coalesce(nullif(current_setting('ultimate_jobs.clock_offset', true), ''), '0')::interval
$$;
