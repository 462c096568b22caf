"""What the database itself refuses, and that a claim or an ack never calls a function."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from django.db import connections, transaction

from tests.migrations import release_3_0
from tests.migrations.database import ALIAS, ScratchDatabase
from tests.migrations.work import Work

FINAL = ("completed", "dead", "cancelled")
LIVE = ("ready", "delayed", "running", "suspended")


@pytest.mark.parametrize("final", FINAL)
@pytest.mark.parametrize("live", LIVE)
def test_update_final_job_becomes_live_only_by_a_retry(
    settled: ScratchDatabase, final: str, live: str
) -> None:
    """The same UPDATE must raise retry_count, whatever statement it is."""
    job = release_3_0.insert(settled, state=final)

    with pytest.raises(psycopg.errors.CheckViolation, match="retry_count"):
        settled.sql("update x_jobs set state = %s where id = %s", [live, job])
    settled.sql(
        "update x_jobs set state = %s, retry_count = retry_count + 1 where id = %s", [live, job]
    )

    assert settled.sql("select state, retry_count from x_jobs") == [(live, 1)]


def test_update_final_job_may_change_what_is_not_its_state(settled: ScratchDatabase) -> None:
    """Redaction of a payload, or another final state, is not a retry."""
    release_3_0.insert(settled, state="dead")

    settled.sql("update x_jobs set payload = '{\"redacted\": true}'")
    settled.sql("update x_jobs set state = 'cancelled'")

    assert settled.sql("select state, payload from x_jobs") == [("cancelled", {"redacted": True})]


def test_delete_final_job_is_allowed(settled: ScratchDatabase) -> None:
    """Retention removes finished jobs."""
    release_3_0.insert(settled, state="completed")

    settled.sql("delete from x_jobs")

    assert settled.sql("select id from x_jobs") == []


def test_update_event_is_refused(settled: ScratchDatabase) -> None:
    """History is never rewritten, however old it is."""
    add_event(settled, "10 years")

    with pytest.raises(psycopg.errors.CheckViolation, match="never updated"):
        settled.sql("update x_job_events set type = 'other'")

    assert settled.value("select type from x_job_events") == "failed"


def test_delete_event_before_the_retention_floor_is_refused(settled: ScratchDatabase) -> None:
    """What an incident of today needs cannot be removed today."""
    add_event(settled, "23 hours")

    with pytest.raises(psycopg.errors.CheckViolation, match="retention floor"):
        settled.sql("delete from x_job_events")

    assert settled.value("select count(*) from x_job_events") == 1


def test_delete_event_after_the_retention_floor_is_allowed(settled: ScratchDatabase) -> None:
    """Retention removes what is old enough."""
    add_event(settled, "25 hours")

    settled.sql("delete from x_job_events")

    assert settled.value("select count(*) from x_job_events") == 0


def add_event(database: ScratchDatabase, age: str) -> None:
    database.sql(
        "insert into x_job_events (job_id, run_id, type, at)"
        " values (gen_random_uuid(), gen_random_uuid(), 'failed', now() - %s::interval)",
        [age],
    )


@pytest.mark.parametrize("second", ["now() + interval '1 s'", "null"])
def test_update_published_at_is_written_once(settled: ScratchDatabase, second: str) -> None:
    """The first stamp stays; it is neither moved nor taken back."""
    settled.sql(
        "insert into x_outbox (message_id, topic, payload) values (gen_random_uuid(), 't', '{}')"
    )
    settled.sql("update x_outbox set published_at = now()")
    first = settled.value("select published_at from x_outbox")

    with pytest.raises(psycopg.errors.CheckViolation, match="published"):
        settled.sql(f"update x_outbox set published_at = {second}")
    settled.sql("update x_outbox set attempts = 1, published_at = published_at")

    assert settled.value("select published_at from x_outbox") == first


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_change_finished_backfill_is_refused(settled: ScratchDatabase, status: str) -> None:
    """A finished pass is the record of what was done to the data."""
    add_pass(settled, status)

    with pytest.raises(psycopg.errors.CheckViolation, match="read-only"):
        settled.sql("update x_backfills set rows_processed = 1")
    with pytest.raises(psycopg.errors.CheckViolation, match="read-only"):
        settled.sql("delete from x_backfills")

    assert settled.sql("select status, rows_processed from x_backfills") == [(status, 0)]


@pytest.mark.parametrize("status", ["running", "paused"])
def test_change_live_backfill_is_allowed(settled: ScratchDatabase, status: str) -> None:
    """A pass that is on its way is written to, and may end."""
    add_pass(settled, status)

    settled.sql("update x_backfills set status = 'completed', rows_processed = 1")

    assert settled.sql("select status, rows_processed from x_backfills") == [("completed", 1)]


def add_pass(database: ScratchDatabase, status: str) -> None:
    database.sql(
        "insert into x_backfills (id, name, status, checksum)"
        " values (gen_random_uuid(), 'a', %s, '')",
        [status],
    )


@pytest.mark.parametrize("final", FINAL)
def test_end_run_with_a_rerun_request_inserts_exactly_one_follow_up(
    settled: ScratchDatabase, final: str
) -> None:
    """Whatever statement ends the run, one new live job takes its key, and the event says so."""
    job = release_3_0.insert(settled, state="running", worker=uuid4(), tenant_id="acme")
    follow = request_rerun(settled, job)

    settled.sql("update x_jobs set state = %s where id = %s", [final, job])
    settled.sql("update x_jobs set updated_at = now() where id = %s", [job])

    assert settled.sql(
        "select id, state, name, tenant_id, idempotency_key, queue, payload, priority, attempt"
        " from x_jobs where id <> %s",
        [job],
    ) == [(follow, "ready", "send", "acme", "k", "urgent", {"n": 2}, 5, 0)]
    assert settled.sql("select job_id, type, detail from x_job_events") == [
        (job, "rerun", {"job_id": str(follow)})
    ]


def test_end_run_without_a_rerun_request_inserts_nothing(settled: ScratchDatabase) -> None:
    """Most runs are not followed."""
    release_3_0.insert(settled, state="running", worker=uuid4())

    settled.sql("update x_jobs set state = 'completed'")

    assert settled.value("select count(*) from x_jobs") == 1


def request_rerun(database: ScratchDatabase, job: UUID) -> UUID:
    follow = uuid4()
    database.sql(
        "update x_jobs set rerun = jsonb_build_object('id', %s::uuid, 'run_id', gen_random_uuid(),"
        " 'queue', 'urgent', 'payload', '{\"n\": 2}'::jsonb, 'priority', 5, 'max_attempts', 3,"
        " 'run_at', now()) where id = %s",
        [follow, job],
    )
    return follow


@pytest.mark.parametrize(
    "steps",
    [
        ["enqueue", "claim", "heartbeat", "complete"],
        ["enqueue", "claim", "shed", "claim", "fail", "claim", "park", "claim", "die"],
        ["enqueue", "cancel"],
    ],
    ids=["complete", "fail", "cancel"],
)
def test_transition_calls_no_trigger(settled: ScratchDatabase, steps: list[str]) -> None:
    """A WHEN clause is all that a claim, an ack or a failure evaluates."""
    work = Work(3)

    with triggers_called() as called:
        for step in steps:
            getattr(work, step)()

    assert called.statements >= len(steps)
    assert called.triggers == []


def test_complete_with_a_rerun_request_calls_one_trigger(settled: ScratchDatabase) -> None:
    """The measure of the test above sees a call where there is one."""
    work = Work(3)
    work.enqueue()
    work.claim()
    work.ask_again()

    with triggers_called() as called:
        work.complete()

    assert called.triggers == [("pgtrigger_run_again_0b1e3", 3)]


@dataclass
class Called:
    """How many statements were explained, and which triggers they called how often."""

    statements: int = 0
    triggers: list[tuple[str, float]] = field(default_factory=list)


@contextmanager
def triggers_called() -> Iterator[Called]:
    """Run each statement twice: explained and taken back first, and then in earnest."""
    called = Called()

    def spy(execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if sql.split(None, 1)[0].lower() in ("with", "insert", "update", "select", "delete"):
            raw = connections[ALIAS].connection.cursor()
            raw.execute("savepoint explained")
            plan = raw.execute(f"explain (analyze, format json) {sql}", params).fetchone()[0]
            raw.execute("rollback to savepoint explained")
            called.statements += 1
            called.triggers += [
                (trigger["Trigger Name"], trigger["Calls"])
                for trigger in plan[0].get("Triggers", [])
            ]
        return execute(sql, params, many, context)

    with transaction.atomic(using=ALIAS), connections[ALIAS].execute_wrapper(spy):
        yield called


def test_every_trigger_has_a_condition(settled: ScratchDatabase) -> None:
    """None of them is asked without a WHEN clause, and all that the models declare are there."""
    found = settled.sql(
        "select tgname, tgqual is not null from pg_trigger"
        " where tgrelid::regclass::text like 'x\\_%' and not tgisinternal"
    )

    assert len(found) == 6
    assert all(conditional for _, conditional in found)
