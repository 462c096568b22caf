"""A loop outlives every database error, and no bug goes unseen."""

from __future__ import annotations

import logging
import threading
from typing import Any

import psycopg
import pytest
from django.db.utils import InterfaceError, InternalError, OperationalError

from ultimate_jobs.errors import JobsSchema
from ultimate_jobs.processes.loops import Loop, is_connection_error, spread_wait
from ultimate_jobs.processes.wakes import Wake


def caused_by(kind: type[Exception], cause: Exception | None) -> Exception:
    error = kind("DETAIL is elsewhere\nDETAIL: Key (secret)=(1)")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        caused_by(OperationalError, psycopg.errors.DeadlockDetected()),
        caused_by(OperationalError, psycopg.errors.SerializationFailure()),
        caused_by(OperationalError, psycopg.errors.QueryCanceled()),
        caused_by(OperationalError, psycopg.errors.LockNotAvailable()),
        caused_by(InternalError, psycopg.errors.ReadOnlySqlTransaction()),
        caused_by(OperationalError, None),
        InterfaceError("connection already closed"),
        JobsSchema(detail="a migration is under way", alias="default"),
    ],
)
def test_attempt_after_database_error_answers_a_wait(
    error: Exception, heard: list[tuple[str, dict[str, Any]]]
) -> None:
    """The loop lives on, says so, and is not hurried by a wake."""
    script = [error]

    def step() -> float:
        if script:
            raise script.pop()
        return 7.0

    loop = Loop("test", step, alias=None, on_bug=lambda: None)

    wait = loop.attempt()
    again = loop.attempt()

    assert 0 < wait <= 0.1
    assert 0 < again <= wait
    [(name, facts)] = heard
    assert name == "jobs.worker.database_error"
    assert facts["loop"] == "test"
    assert "secret" not in str(facts)


def test_attempt_logs_the_first_error_of_a_row_in_words(caplog: pytest.LogCaptureFixture) -> None:
    """An operator reads what is wrong, without the values that DETAIL quotes."""

    def step() -> float:
        raise caused_by(OperationalError, None)

    with caplog.at_level(logging.WARNING, "ultimate_jobs"):
        Loop("test", step, alias=None, on_bug=lambda: None).attempt()

    assert "test: DETAIL is elsewhere" in caplog.text
    assert "secret" not in caplog.text


def test_loop_that_meets_a_bug_logs_it_and_calls(caplog: pytest.LogCaptureFixture) -> None:
    """A loop never ends in silence."""
    called = threading.Event()

    def step() -> float:
        raise ZeroDivisionError("a bug")

    loop = Loop("test", step, alias=None, on_bug=called.set)
    with caplog.at_level(logging.ERROR, "ultimate_jobs"):
        loop.start()
        assert called.wait(10)
        loop.stop(timeout=10)

    assert "the test of this worker failed" in caplog.text
    assert "ZeroDivisionError: a bug" in caplog.text


def test_stop_ends_a_long_pause() -> None:
    """Nobody waits for a sleeping loop."""
    stepped = threading.Event()

    def step() -> float:
        stepped.set()
        return 3600.0

    loop = Loop("test", step, alias=None, on_bug=lambda: None)
    loop.start()
    assert stepped.wait(10)

    loop.stop(timeout=10)

    assert not loop._thread.is_alive()


def test_spread_wait_grows_to_its_limit_and_spreads() -> None:
    """Waits double, are capped, and differ from worker to worker."""
    first = {spread_wait(1, first=0.1, longest=5) for _ in range(50)}
    last = {spread_wait(1000, first=0.1, longest=5) for _ in range(50)}

    assert all(0.05 <= wait <= 0.1 for wait in first)
    assert all(2.5 <= wait <= 5 for wait in last)
    assert len(first) > 10


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (InterfaceError("closed"), True),
        (caused_by(OperationalError, None), True),
        (caused_by(OperationalError, psycopg.errors.CrashShutdown()), True),
        (caused_by(InternalError, psycopg.errors.ReadOnlySqlTransaction()), True),
        (caused_by(OperationalError, psycopg.errors.DeadlockDetected()), False),
        (UnicodeEncodeError("utf-8", "x", 0, 1, "no"), False),
    ],
)
def test_is_connection_error(error: Exception, expected: bool) -> None:
    """A standby's refusal is one too: only a new connection finds the primary."""
    assert is_connection_error(error) is expected


def test_pause_ends_when_called_before_or_meanwhile() -> None:
    """A call is never lost, and two are one."""
    wake = Wake()
    wake.call()
    wake.call()

    assert wake.pause(0) is True
    assert wake.pause(0) is False
    threading.Timer(0.01, wake.call).start()
    assert wake.pause(30) is True
