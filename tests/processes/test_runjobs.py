"""manage.py runjobs refuses in words, and sums up what it did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import override_settings

from tests.app.jobs import note
from tests.app.models import Effect
from ultimate_jobs.drivers import use_driver
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.drivers.postgres import PostgresDriver

pytestmark = pytest.mark.django_db(transaction=True)


def refused(*arguments: str, **options: Any) -> dict[str, str]:
    """Run with --json and return the error."""
    out = StringIO()
    with pytest.raises(SystemExit) as exit_:
        call_command("runjobs", *arguments, "--json", stdout=out, **options)
    assert exit_.value.code == 1
    error: dict[str, str] = json.loads(out.getvalue())["error"]
    return error


@pytest.fixture
def memory_driver() -> Iterator[None]:
    use_driver(MemoryDriver())
    yield
    use_driver(None)


def test_burst_runs_what_is_due_and_sums_up() -> None:
    """The last line says how many jobs ended how."""
    note.enqueue(label="one")
    out = StringIO()

    call_command("runjobs", "--burst", "--threads", "2", "--json", stdout=out)

    assert json.loads(out.getvalue()) == {
        "completed": 1,
        "failed": 0,
        "dead": 0,
        "cancelled": 0,
        "discarded": 0,
        "deferred": 0,
        "handed_back": 0,
        "lost": 0,
    }
    assert Effect.objects.get().label == "one"


def test_summary_is_text_by_default() -> None:
    """People read a sentence."""
    out = StringIO()

    call_command("runjobs", "--burst", stdout=out)

    assert out.getvalue().startswith("0 completed, 0 failed, 0 dead")


@pytest.mark.parametrize(
    ("arguments", "code", "cause"),
    [
        (["--threads", "0"], "X_ARGUMENT_INVALID", "--threads is not between 1 and 256"),
        (["--burst", "--once"], "X_ARGUMENT_INVALID", "two ends of a worker"),
        (["--threads", "257"], "X_ARGUMENT_INVALID", "--threads is not between 1 and 256"),
        (["--grace", "-1"], "X_ARGUMENT_INVALID", "--grace is not between"),
        (["--grace", "nan"], "X_ARGUMENT_INVALID", "--grace is not between"),
        (["--processes", "0"], "X_ARGUMENT_INVALID", "--processes is not between 1 and 64"),
        (["--processes", "65"], "X_ARGUMENT_INVALID", "--processes is not between 1 and 64"),
        (["--processes", "2", "--threads", "0"], "X_ARGUMENT_INVALID", "--threads"),
        (["--health", "8081"], "X_ARGUMENT_INVALID", "--health is no HOST:PORT"),
        (["--health", ":8081"], "X_ARGUMENT_INVALID", "--health is no HOST:PORT"),
        (["--health", "localhost:http"], "X_ARGUMENT_INVALID", "--health is no HOST:PORT"),
        (["--health", "localhost:65536"], "X_ARGUMENT_INVALID", "--health is no HOST:PORT"),
        (["--health", "203.0.113.1:8081"], "X_ARGUMENT_INVALID", "--health cannot be listened at"),
        (["--supervisor", "999"], "X_ARGUMENT_INVALID", "--supervisor"),
        (["--queues", " , "], "X_ARGUMENT_INVALID", "--queues names no queue"),
        (["--queues", "a\x00b"], "X_JOB_KEY_INVALID", "NUL"),
        (["--database", "nowhere"], "X_ARGUMENT_INVALID", "--database"),
    ],
)
def test_unusable_argument_is_refused(arguments: list[str], code: str, cause: str) -> None:
    """Before anything is claimed, with a fix."""
    error = refused(*arguments)

    assert error["code"] == code
    assert cause in error["cause"]
    assert error["fix"]


def test_memory_driver_is_refused(memory_driver: None) -> None:
    """Its jobs live in the process that enqueued them: this one's queue would be empty."""
    error = refused("--burst")

    assert error["code"] == "X_DRIVER_UNSUPPORTED"
    assert "memory" in error["cause"]


@pytest.mark.parametrize("way", ["option", "setting"])
def test_processes_are_refused_of_a_driver_that_has_one(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What each process would hold, no other would see."""
    monkeypatch.setattr(PostgresDriver, "supports_processes", False)

    if way == "option":
        error = refused("--burst", "--processes", "2")
    else:
        with override_settings(ULTIMATE_JOBS={"PROCESSES": 2}):
            error = refused("--burst")

    assert error["code"] == "X_DRIVER_UNSUPPORTED"
    assert "process" in error["cause"]


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("x_jobs", "lost_leases"),
        ("x_jobs", "result"),
        ("x_jobs", "cancel_requested_at"),
        ("x_job_events", "detail"),
        ("x_job_leases", "holder"),
    ],
)
def test_database_without_the_schema_is_refused(table: str, column: str) -> None:
    """A worker that starts before its migration says which command is missing."""
    with connection.cursor() as cursor:
        cursor.execute(f"alter table {table} rename column {column} to later")
    try:
        error = refused("--burst")
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"alter table {table} rename column later to {column}")

    assert error["code"] == "X_JOBS_SCHEMA"
    assert error["fix"] == "manage.py migrate ultimate_jobs"


@override_settings(ULTIMATE_JOBS={"DRIVER": "nats"})
def test_driver_that_is_not_built_is_refused() -> None:
    """By name."""
    assert refused("--burst")["code"] == "X_DRIVER_NOT_IMPLEMENTED"


def test_queues_given_twice_are_all_served() -> None:
    """The second list does not replace the first."""
    for queue in ("one", "two", "three", "four"):
        note.using(queue=queue).enqueue(label=queue)

    call_command("runjobs", "--queues", "one", "--queues", "two, three", "--burst")

    assert {effect.label for effect in Effect.objects.all()} == {"one", "two", "three"}


def test_queues_of_a_caller_in_python_are_a_list_or_text() -> None:
    """``call_command`` passes an option on as it is."""
    for queue in ("one", "two"):
        note.using(queue=queue).enqueue(label=queue)

    call_command("runjobs", queues="one", burst=True)
    call_command("runjobs", queues=["two"], burst=True)

    assert Effect.objects.count() == 2


def test_migrations_that_are_missing_are_told_beside_the_answer() -> None:
    """With --json stdout is one document."""
    out, err = StringIO(), StringIO()
    with connection.cursor() as cursor:
        cursor.execute("delete from django_migrations where app = 'sessions'")
    try:
        call_command("runjobs", "--burst", "--json", stdout=out, stderr=err)
    finally:
        call_command("migrate", "sessions", fake=True, verbosity=0)

    assert json.loads(out.getvalue())["completed"] == 0
    assert "unapplied migration" in err.getvalue()


def test_fix_of_an_unknown_database_names_one_that_there_is() -> None:
    """It can be run as it stands."""
    assert refused("--database", "zzz")["fix"] == "manage.py runjobs --database default"
