"""System checks that ask the database: what was changed there by hand."""

from __future__ import annotations

import re
import shlex

import pytest
from django.apps import apps
from django.core import checks as django_checks
from django.core.management import call_command
from django.db import NotSupportedError, OperationalError, connection, connections

from tests.test_checks import found
from ultimate_jobs import checks
from ultimate_jobs.drivers.postgres import schema
from ultimate_jobs.models.job import LIVE_KEY_INDEX, SUPERSEDED_KEY_INDEXES


def from_database() -> dict[str, django_checks.CheckMessage]:
    return found(*checks.check_database(databases=["default"]))


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.django_db
def test_check_of_a_migrated_database_finds_nothing() -> None:
    """What the migrations made is in order."""
    assert from_database() == {}


@pytest.mark.django_db
@pytest.mark.parametrize("databases", [None, [], ["other"]])
def test_check_asks_no_database_it_was_not_told_to(databases, django_assert_num_queries) -> None:
    """A plain ``manage.py check`` opens no connection."""
    with django_assert_num_queries(0):
        assert checks.check_database(databases=databases) == []


@pytest.mark.django_db
def test_check_of_a_missing_trigger_is_an_error() -> None:
    """What must never change is no longer kept."""
    execute(f"drop trigger {_pgid('event_is_never_updated')} on x_job_events")

    message = from_database()["E010"]

    assert "event_is_never_updated is missing" in message.msg
    assert message.hint == (
        "manage.py pgtrigger install ultimate_jobs.JobEvent:event_is_never_updated "
        "--database default"
    )


@pytest.mark.django_db
def test_check_of_a_disabled_trigger_is_an_error() -> None:
    """A trigger that is there and sleeps is as good as none."""
    execute(f"alter table x_jobs disable trigger {_pgid('run_again')}")

    message = from_database()["E010"]

    assert "run_again is disabled" in message.msg
    assert message.hint.startswith("manage.py pgtrigger enable ultimate_jobs.Job:run_again ")


@pytest.mark.django_db
def test_check_of_a_stale_trigger_is_an_error() -> None:
    """A trigger of another release does something else."""
    execute(f"comment on trigger {_pgid('run_again')} on x_jobs is 'another hash'")

    message = from_database()["E010"]

    assert "run_again is not the declared one" in message.msg
    assert message.hint.startswith("manage.py pgtrigger install ultimate_jobs.Job:run_again ")


@pytest.mark.django_db
def test_hint_of_a_missing_trigger_mends_it() -> None:
    """The line that is printed is run, and the check is silent."""
    execute(f"drop trigger {_pgid('run_again')} on x_jobs")

    call_command(*shlex.split(from_database()["E010"].hint)[1:])

    assert from_database() == {}


def _pgid(name: str) -> str:
    [pgid] = [
        trigger.get_pgid(model)
        for model in apps.get_app_config("ultimate_jobs").get_models()
        for trigger in getattr(model._meta, "triggers", ())
        if trigger.name == name
    ]
    return str(pgid)


@pytest.mark.django_db
def test_check_of_the_missing_key_index_is_an_error() -> None:
    """Without it nothing is deduped."""
    execute(f"drop index {LIVE_KEY_INDEX}")

    message = from_database()["E011"]

    assert f"{LIVE_KEY_INDEX} is missing" in message.msg
    assert "CREATE UNIQUE INDEX CONCURRENTLY" in message.hint


@pytest.mark.django_db
def test_hint_of_the_missing_key_index_builds_the_declared_one() -> None:
    """The SQL in the hint is run, and the index is what it was."""
    before = _definition()
    execute(f"drop index {LIVE_KEY_INDEX}")

    [*_, flag, statement] = shlex.split(from_database()["E011"].hint)
    # A test is a transaction, which a concurrent build refuses.
    execute(statement.replace(" CONCURRENTLY", ""))

    assert flag == "-c"
    assert _definition() == before
    assert from_database() == {}


def _definition() -> str:
    with connection.cursor() as cursor:
        cursor.execute("select pg_get_indexdef(%s::regclass)", [LIVE_KEY_INDEX])
        return str(cursor.fetchone()[0])


@pytest.mark.django_db
def test_check_of_an_invalid_key_index_is_an_error() -> None:
    """A build that was interrupted leaves an index that dedupes nothing."""
    execute(
        f"update pg_index set indisvalid = false where indexrelid = '{LIVE_KEY_INDEX}'::regclass"
    )

    message = from_database()["E011"]

    assert "is invalid" in message.msg
    assert re.search(r"-c .DROP INDEX CONCURRENTLY .* -c .CREATE UNIQUE INDEX", message.hint)


@pytest.mark.django_db
@pytest.mark.parametrize("name", SUPERSEDED_KEY_INDEXES)
def test_check_of_a_superseded_index_is_an_error(name: str) -> None:
    """While it stands, two tenants cannot hold one key."""
    execute(f"create unique index {name} on x_jobs (name, idempotency_key)")

    message = from_database()["E011"]

    assert f"{name}, which was replaced, is still enforced" in message.msg
    assert f"DROP INDEX CONCURRENTLY IF EXISTS {name}" in message.hint


@pytest.mark.django_db
def test_check_before_the_migrations_finds_nothing() -> None:
    """``migrate`` asks first: what it is about to make must not stop it."""
    execute("drop table x_jobs cascade")
    execute("delete from django_migrations where app = 'ultimate_jobs'")

    assert not schema.is_migrated("default")
    assert from_database() == {}


@pytest.mark.django_db
def test_check_of_missing_tables_survives() -> None:
    """Tables that were dropped by hand are an answer, not an exception."""
    execute("drop table x_jobs cascade")

    assert {"E010", "E011"} <= set(from_database())


def test_check_of_an_unreachable_database_warns(monkeypatch) -> None:
    """A build machine without a database can still run ``check``."""

    def refuse(alias: str) -> bool:
        raise OperationalError("connection refused\nIs the server running?")

    monkeypatch.setattr(schema, "is_migrated", refuse)
    monkeypatch.setitem(vars(connections["default"]), "pg_version", 180_000)

    message = from_database()["W011"]

    assert "X_DATABASE_UNAVAILABLE" in message.msg
    assert message.hint == "manage.py dbshell --database default"


@pytest.mark.parametrize("version", [130_012, 96_024])
def test_check_of_an_old_server_warns(monkeypatch, version: int) -> None:
    """What is not tested is not promised."""
    monkeypatch.setitem(vars(connections["default"]), "pg_version", version)
    monkeypatch.setattr(schema, "is_migrated", lambda alias: False)

    assert "14 is the oldest" in from_database()["W010"].msg


def test_check_of_a_server_that_django_refuses_warns(monkeypatch) -> None:
    """Django raises at connect; the check says the same in its own words."""

    def refuse(alias: str) -> list[object]:
        raise NotSupportedError("PostgreSQL 14 or later is required (found 12.1).")

    monkeypatch.setattr(checks, "_server", refuse)

    assert "found 12.1" in from_database()["W010"].msg
