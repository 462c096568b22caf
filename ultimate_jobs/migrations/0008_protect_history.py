"""Let the database itself defend what must never change.

Lock: SHARE ROW EXCLUSIVE on four tables, for milliseconds: writers wait, readers do not. Backwards
it is ACCESS EXCLUSIVE, as short. Each trigger has a WHEN clause, so a claim or an ack calls none.
"""

from django.db import migrations
from pgtrigger.compiler import Trigger, UpsertTriggerSql
from pgtrigger.migrations import AddTrigger

from ultimate_jobs.migrations._locking import TakeLock

TABLES = ("Job", "JobEvent", "OutboxMessage", "BackfillPass")

# Frozen as of this file; makemigrations --check holds them against sql/triggers.sql.
FINISHED_BACKFILL_IS_READ_ONLY = """\
RAISE EXCEPTION 'x_backfills: pass % is % and is read-only', OLD.id, OLD.status
    USING ERRCODE = 'check_violation';"""

FINAL_JOB_STAYS_FINAL = """\
RAISE EXCEPTION 'x_jobs: job % is % and becomes live only where the same UPDATE raises retry_count',
    OLD.id, OLD.state USING ERRCODE = 'check_violation';"""

RUN_AGAIN = """\
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
RETURN NULL;"""

EVENT_IS_NEVER_UPDATED = """\
RAISE EXCEPTION 'x_job_events: event % is history and is never updated', OLD.id
    USING ERRCODE = 'check_violation';"""

EVENT_IS_KEPT = """\
RAISE EXCEPTION 'x_job_events: event % is younger than the retention floor of one day', OLD.id
    USING ERRCODE = 'check_violation';"""

PUBLISHED_AT_IS_WRITTEN_ONCE = """\
RAISE EXCEPTION 'x_outbox: message % was published at % already', OLD.id, OLD.published_at
    USING ERRCODE = 'check_violation';"""

# pgtrigger's own reverse drops the triggers and leaves their functions.
FORGET_FUNCTIONS = """\
DROP FUNCTION IF EXISTS
    pgtrigger_finished_backfill_is_read_only_0fc72(),
    pgtrigger_final_job_stays_final_aa24d(),
    pgtrigger_run_again_0b1e3(),
    pgtrigger_event_is_never_updated_8328b(),
    pgtrigger_event_is_kept_1c179(),
    pgtrigger_published_at_is_written_once_f6161()"""


class Migration(migrations.Migration):
    dependencies = [("ultimate_jobs", "0007_tune_storage")]

    operations = [
        migrations.RunSQL(migrations.RunSQL.noop, reverse_sql=[(FORGET_FUNCTIONS, None)]),
        TakeLock("SHARE ROW EXCLUSIVE", TABLES, forwards=True),
        AddTrigger(
            model_name="backfillpass",
            trigger=Trigger(
                name="finished_backfill_is_read_only",
                sql=UpsertTriggerSql(
                    condition="WHEN (OLD.status IN ('completed', 'failed', 'cancelled'))",
                    func=FINISHED_BACKFILL_IS_READ_ONLY,
                    hash="a2bdec3d45e2712ae3086735d7b55b28d3f24c00",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_finished_backfill_is_read_only_0fc72",
                    table="x_backfills",
                    when="BEFORE",
                ),
            ),
        ),
        AddTrigger(
            model_name="job",
            trigger=Trigger(
                name="final_job_stays_final",
                sql=UpsertTriggerSql(
                    condition="WHEN (OLD.state IN ('completed', 'dead', 'cancelled')"
                    " AND NEW.state IN ('ready', 'delayed', 'running', 'suspended')"
                    " AND NEW.retry_count <= OLD.retry_count)",
                    func=FINAL_JOB_STAYS_FINAL,
                    hash="f78b1329f70ccf14df55da63f39bdcf7c80e6948",
                    operation="UPDATE",
                    pgid="pgtrigger_final_job_stays_final_aa24d",
                    table="x_jobs",
                    when="AFTER",
                ),
            ),
        ),
        AddTrigger(
            model_name="job",
            trigger=Trigger(
                name="run_again",
                sql=UpsertTriggerSql(
                    condition="WHEN (NEW.rerun IS NOT NULL"
                    " AND OLD.state IN ('ready', 'delayed', 'running', 'suspended')"
                    " AND NEW.state IN ('completed', 'dead', 'cancelled'))",
                    func=RUN_AGAIN,
                    hash="f8e5c8e5a572d36d88eb97a3c66cd81e583e9827",
                    operation="UPDATE",
                    pgid="pgtrigger_run_again_0b1e3",
                    table="x_jobs",
                    when="AFTER",
                ),
            ),
        ),
        AddTrigger(
            model_name="jobevent",
            trigger=Trigger(
                name="event_is_never_updated",
                sql=UpsertTriggerSql(
                    condition="WHEN (OLD.id IS NOT NULL)",
                    func=EVENT_IS_NEVER_UPDATED,
                    hash="ce91b265864d4af87667dd9c964788cd4f5d2b71",
                    operation="UPDATE",
                    pgid="pgtrigger_event_is_never_updated_8328b",
                    table="x_job_events",
                    when="BEFORE",
                ),
            ),
        ),
        AddTrigger(
            model_name="jobevent",
            trigger=Trigger(
                name="event_is_kept",
                sql=UpsertTriggerSql(
                    condition="WHEN (OLD.at > x_now() - interval '1 day')",
                    func=EVENT_IS_KEPT,
                    hash="a1c150caf8c494c0852898e4445223228c6a62db",
                    operation="DELETE",
                    pgid="pgtrigger_event_is_kept_1c179",
                    table="x_job_events",
                    when="BEFORE",
                ),
            ),
        ),
        AddTrigger(
            model_name="outboxmessage",
            trigger=Trigger(
                name="published_at_is_written_once",
                sql=UpsertTriggerSql(
                    condition="WHEN (OLD.published_at IS NOT NULL"
                    " AND NEW.published_at IS DISTINCT FROM OLD.published_at)",
                    func=PUBLISHED_AT_IS_WRITTEN_ONCE,
                    hash="298e342891c37eb9ad2e69ceb34f15b9821b0856",
                    operation="UPDATE",
                    pgid="pgtrigger_published_at_is_written_once_f6161",
                    table="x_outbox",
                    when="AFTER",
                ),
            ),
        ),
        TakeLock("ACCESS EXCLUSIVE", TABLES, forwards=False),
    ]
