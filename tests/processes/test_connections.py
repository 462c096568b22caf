"""A body finds and leaves Django's connections as a request would."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.test.utils import override_settings

from ultimate_jobs.processes.connections import (
    KEEP_SECONDS,
    close_all,
    close_idle,
    discard,
    open_blocks,
    tidy,
)

pytestmark = pytest.mark.django_db(transaction=True)


def in_thread(work: Callable[[], Any]) -> Any:
    """Run in a thread of its own, as bodies do, and return or raise what it did."""
    answer: list[Any] = []

    def run() -> None:
        try:
            answer.append(work())
        except BaseException as error:
            answer.append(error)
        finally:
            close_all()

    thread = Thread(target=run)
    thread.start()
    thread.join(30)
    [one] = answer
    if isinstance(one, BaseException):
        raise one
    return one


def select(what: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(f"select {what}")
        return cursor.fetchone()[0]


def test_tidy_keeps_a_connection_for_the_next_body() -> None:
    """At the default CONN_MAX_AGE of 0 a busy thread does not reconnect for each body."""

    def work() -> bool:
        first = select("pg_backend_pid()")
        left = tidy()
        return left == [] and first == select("pg_backend_pid()")

    assert connection.settings_dict["CONN_MAX_AGE"] == 0
    assert in_thread(work)


def test_tidy_closes_what_is_long_past_its_age() -> None:
    """Not for ever: a second past its age it goes."""

    def work() -> Any:
        select("1")
        connection.close_at = time.monotonic() - KEEP_SECONDS
        tidy()
        return connection.connection

    assert in_thread(work) is None


def test_close_idle_closes_what_is_past_its_age() -> None:
    """A thread without work holds no connection that a request would not keep."""

    def work() -> Any:
        select("1")
        tidy()
        close_idle()
        return connection.connection

    assert in_thread(work) is None


def test_tidy_replaces_a_connection_that_broke() -> None:
    """The next body does not inherit what a restart broke."""

    def work() -> Any:
        first = select("pg_backend_pid()")
        with pytest.raises(Exception, match=r"terminat|closed"):
            select("pg_terminate_backend(pg_backend_pid())")
        tidy()
        return first != select("pg_backend_pid()")

    assert in_thread(work)


@pytest.mark.parametrize(
    "leave",
    [
        lambda: transaction.atomic().__enter__(),
        lambda: connection.cursor().execute("begin"),
        lambda: (transaction.set_autocommit(False), connection.cursor().execute("select 1")),
    ],
)
def test_tidy_rolls_back_what_was_left_open(leave: Callable[[], Any]) -> None:
    """The alias is told, and the next body starts outside any transaction."""

    def work() -> Any:
        select("1")
        leave()
        left = tidy()
        return left, connection.in_atomic_block, connection.get_autocommit(), select("1")

    assert in_thread(work) == (["default"], False, True, 1)


def test_tidy_after_connection_was_closed_in_atomic_recovers() -> None:
    """Django's wrapper would refuse to reconnect; the next body gets a new one."""

    def work() -> Any:
        transaction.atomic().__enter__()
        connection.close()
        return tidy(), select("1")

    assert in_thread(work) == (["default"], 1)


def test_tidy_leaves_the_caller_s_block_alone() -> None:
    """In a test's transaction nothing is rolled back or closed."""
    with transaction.atomic():
        before = open_blocks()
        left = tidy(before)
        still_open = connection.in_atomic_block

    assert before == {"default"}
    assert left == []
    assert still_open


@override_settings(DEBUG=True)
def test_tidy_forgets_the_queries_that_debug_keeps() -> None:
    """A worker under DEBUG does not collect its SQL."""

    def work() -> Any:
        select("1")
        kept = len(connection.queries)
        tidy()
        return kept, len(connection.queries)

    assert in_thread(work) == (1, 0)


def test_discard_forgets_one_alias_whatever_its_state() -> None:
    """The next use connects anew; other aliases and unused ones are no matter."""

    def work() -> Any:
        first = select("pg_backend_pid()")
        discard(None)
        discard("other")
        discard("default")
        return first != select("pg_backend_pid()")

    assert in_thread(work)
    assert "default" in connections
