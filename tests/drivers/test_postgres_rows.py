"""Rows of PostgreSQL: an unknown status is refused by name, and hides no other row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.db.utils import IntegrityError

from tests.factories import BackfillPassFactory, JobFactory, StepFactory
from ultimate_jobs import ANY_TENANT, Job, job
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.drivers.postgres.rows import (
    backfill_record,
    backfill_status,
    job_state,
    step_record,
    step_status,
)
from ultimate_jobs.errors import JobRowStatusUnknown
from ultimate_jobs.models import Job as Row
from ultimate_jobs.records import JobFilter, JobRecord, UnreadableJob
from ultimate_jobs.states import BackfillStatus, JobState, StepStatus
from ultimate_jobs.types import ClaimRequest

COLUMNS: list[tuple[str, str, Callable[[str], Any], Any]] = [
    ("x_jobs", "state", job_state, JobState),
    ("x_job_steps", "status", step_status, StepStatus),
    ("x_backfills", "status", backfill_status, BackfillStatus),
]
CHECKS = {
    "x_jobs": "x_jobs_state_known",
    "x_job_steps": "x_job_steps_status_known",
    "x_backfills": "x_backfills_status_known",
}
FACTORIES = {
    "x_jobs": lambda value: JobFactory(state=value),
    "x_job_steps": lambda value: StepFactory(status=value),
    "x_backfills": lambda value: BackfillPassFactory(status=value),
}


def allow_any_status(table: str) -> None:
    """Stand in for a newer release, whose CHECK knows one more word."""
    with connection.cursor() as cursor:
        cursor.execute(f"alter table {table} drop constraint {CHECKS[table]}")


@pytest.fixture
def archived(db: None) -> Row:
    """A job in a state that only a newer release knows."""
    allow_any_status("x_jobs")
    row: Row = JobFactory(name="tests.archived", idempotency_key="k", state="archived")
    return row


@pytest.fixture
def driver() -> PostgresDriver:
    return PostgresDriver("default")


@pytest.mark.parametrize(("table", "column", "decode", "known"), COLUMNS, ids=lambda v: str(v)[:12])
def test_decode_of_a_known_status_is_its_member(
    table: str, column: str, decode: Callable[[str], Any], known: Any
) -> None:
    """Every stored word has its member."""
    assert [decode(one.value) for one in known] == list(known)


@pytest.mark.parametrize("value", ["archived", "", "READY", " ready", "Completed", "None"])
@pytest.mark.parametrize(("table", "column", "decode", "known"), COLUMNS, ids=lambda v: str(v)[:12])
def test_decode_of_an_unknown_status_names_table_column_value_and_known(
    table: str, column: str, decode: Callable[[str], Any], known: Any, value: str
) -> None:
    """The message is enough to find the row and the release that wrote it."""
    with pytest.raises(JobRowStatusUnknown) as caught:
        decode(value)

    assert f"{table}.{column} holds {value!r}" in caught.value.cause
    assert ", ".join(one.value for one in known) in caught.value.cause


@pytest.mark.django_db
@pytest.mark.parametrize("table", sorted(CHECKS))
def test_database_refuses_an_unknown_status(table: str) -> None:
    """Every status column has its CHECK."""
    with pytest.raises(IntegrityError, match=CHECKS[table]), transaction.atomic():
        FACTORIES[table]("archived")


@pytest.mark.django_db
@pytest.mark.parametrize(("table", "column", "decode", "known"), COLUMNS, ids=lambda v: str(v)[:12])
def test_database_takes_every_known_status(
    table: str, column: str, decode: Callable[[str], Any], known: Any
) -> None:
    """The CHECK and the code know the same words."""
    for one in known:
        assert FACTORIES[table](one.value).pk is not None


@pytest.mark.django_db
def test_step_record_of_an_unknown_status_is_refused() -> None:
    """A step is decoded like a job."""
    allow_any_status("x_job_steps")

    with pytest.raises(JobRowStatusUnknown) as caught:
        step_record(StepFactory(status="archived"))

    assert "x_job_steps.status holds 'archived'" in caught.value.cause


@pytest.mark.django_db
def test_backfill_record_of_an_unknown_status_is_refused() -> None:
    """A pass is decoded like a job."""
    allow_any_status("x_backfills")

    with pytest.raises(JobRowStatusUnknown) as caught:
        backfill_record(BackfillPassFactory(status="archived"))

    assert "x_backfills.status holds 'archived'" in caught.value.cause


@pytest.mark.django_db
def test_step_and_backfill_records_tell_what_is_stored() -> None:
    """A record is the row, with JSON as text."""
    step = StepFactory(output={"n": 1}, status="failed")
    ledger = BackfillPassFactory(status="paused", rows_processed=7)

    assert (step_record(step).output, step_record(step).status) == ('{"n": 1}', StepStatus.FAILED)
    found = backfill_record(ledger)
    assert (found.id, found.status, found.rows_processed) == (
        ledger.id,
        BackfillStatus.PAUSED,
        7,
    )


def test_get_of_a_job_in_an_unknown_state_is_refused(archived: Row, driver: PostgresDriver) -> None:
    """One job is asked for, and what it is cannot be told."""
    with pytest.raises(JobRowStatusUnknown) as caught:
        driver.introspection.get(archived.id, tenant=None)

    assert "x_jobs.state holds 'archived'" in caught.value.cause


@pytest.mark.parametrize(
    "criteria", [JobFilter(), JobFilter(states=("archived", "ready"))], ids=str
)
def test_find_shows_a_job_in_an_unknown_state_and_all_others(
    archived: Row, driver: PostgresDriver, criteria: JobFilter
) -> None:
    """A list never fails as a whole: the row is shown, and says what is wrong with it."""
    others = [JobFactory().id for _ in range(3)]

    found = driver.introspection.find(criteria, limit=10)

    unreadable = [one for one in found if isinstance(one, UnreadableJob)]
    assert [(one.id, one.name) for one in unreadable] == [(archived.id, "tests.archived")]
    assert "x_jobs.state holds 'archived'" in unreadable[0].error
    assert {one.id for one in found if isinstance(one, JobRecord)} == set(others)


def test_cancel_of_a_job_in_an_unknown_state_is_refused_and_changes_nothing(
    archived: Row, driver: PostgresDriver
) -> None:
    """Whether it waits or has ended is not known, so it is not touched."""
    with pytest.raises(JobRowStatusUnknown):
        driver.cancel([archived.id], tenant=ANY_TENANT, by="tests")

    archived.refresh_from_db()
    assert (archived.state, archived.cancel_requested_at) == ("archived", None)


@pytest.mark.parametrize("fresh", [None, uuid4()])
def test_retry_of_a_job_in_an_unknown_state_is_refused_and_changes_nothing(
    archived: Row, driver: PostgresDriver, fresh: Any
) -> None:
    """A retry is for states that are known to be final."""
    with pytest.raises(JobRowStatusUnknown):
        driver.introspection.retry(archived.id, tenant=None, by="tests", fresh_run_id=fresh)

    archived.refresh_from_db()
    assert (archived.state, archived.retry_count) == ("archived", 0)


def test_claim_leaves_a_job_in_an_unknown_state_alone(
    archived: Row, driver: PostgresDriver
) -> None:
    """An older worker does not run what it does not understand."""
    due = JobFactory(name="tests.archived")

    claimed = driver.claim(ClaimRequest(uuid4(), ("tests.archived",), 10, queues=None))

    assert [one.id for one in claimed] == [due.id]


def test_stats_beside_a_job_in_an_unknown_state_count_the_rest(
    archived: Row, driver: PostgresDriver
) -> None:
    """The counts are of the known states, and do not fail."""
    JobFactory()

    [counted] = driver.introspection.stats()

    assert (counted.queue, counted.depth, counted.dead) == ("default", 1, 0)


def test_enqueue_with_the_key_of_a_job_in_an_unknown_state_is_a_new_job(
    archived: Row, own_registry: None
) -> None:
    """Only states that this release knows as live hold a key."""

    @job(key="k", name="tests.archived")
    def body(ctx: Any) -> None: ...

    declared: Job[Any, Any] = body

    assert declared.enqueue().deduped is False


@pytest.mark.django_db
def test_job_record_keeps_numbers_as_they_are_stored(driver: PostgresDriver) -> None:
    """No number is rounded on its way to a screen."""
    row = JobFactory()
    number = "123456789012345678901234567890.123456789012345678"
    with connection.cursor() as cursor:
        cursor.execute(
            "update x_jobs set payload = %s::jsonb, result = %s::jsonb where id = %s",
            [f'{{"n": {number}}}', number, row.id],
        )

    record = driver.introspection.get(row.id, tenant=None)

    assert record is not None
    assert (record.payload, record.result) == (f'{{"n": {number}}}', number)
