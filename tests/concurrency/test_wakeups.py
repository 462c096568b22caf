"""A NOTIFY stands outside of the transaction that wrote: shown from a second session."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any

import psycopg
import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from tests.app.jobs import note
from tests.concurrency.sessions import DEADLINE_SECONDS, Session, fetch
from tests.conftest import url_of

Listening = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def listening(transactional_db: None) -> Iterator[Listening]:
    """A session that listens."""
    with psycopg.connect(url_of("default"), autocommit=True) as session:
        session.execute("listen x_jobs")
        yield session


class Gate:
    """Holds a session right before it sends its NOTIFY."""

    def __init__(self) -> None:
        self.reached, self.open = Event(), Event()

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "pg_notify" in sql:
            self.reached.set()
            assert self.open.wait(DEADLINE_SECONDS)
        return execute(sql, params, many, context)


def enqueue_in_a_transaction(gate: Gate) -> None:
    with connections["default"].execute_wrapper(gate), transaction.atomic():
        note.enqueue(label="one")


def test_word_comes_after_the_commit_and_not_before(
    pair: tuple[Session, Session], listening: Listening
) -> None:
    """While the writer's transaction is open nobody hears; whoever hears finds the job."""
    writer, _ = pair
    writer.begin()
    writer.run(lambda: note.enqueue(label="one"))
    before = list(listening.notifies(timeout=0.2))

    writer.commit()
    [word] = list(listening.notifies(timeout=DEADLINE_SECONDS, stop_after=1))

    assert before == []
    assert (word.payload, word.pid) == ("default", writer.pid)
    assert listening.execute("select state from x_jobs").fetchall() == [("ready",)]


def test_session_that_is_about_to_notify_has_committed_and_holds_nothing(
    pair: tuple[Session, Session],
) -> None:
    """The job is visible, and the session has neither a transaction nor a lock.

    Inside the writing transaction the lock of the NOTIFY would be held while the commit is
    flushed, and all commits that notify would pass one by one.
    """
    writer, _ = pair
    gate = Gate()

    writing = writer.start(lambda: enqueue_in_a_transaction(gate))
    assert gate.reached.wait(DEADLINE_SECONDS)
    states = fetch("select state from x_jobs")
    activity = fetch(
        "select state, backend_xid, query from pg_stat_activity where pid = %s", (writer.pid,)
    )
    locks = fetch("select locktype, mode from pg_locks where pid = %s", (writer.pid,))
    gate.open.set()
    writing.result(timeout=DEADLINE_SECONDS)

    assert states == [("ready",)]
    assert activity == [("idle", None, "COMMIT")]
    assert locks == []


def test_statements_of_an_enqueue_are_in_this_order(transactional_db: None) -> None:
    """BEGIN, the job, COMMIT, and then the word in a transaction of its own."""
    with CaptureQueriesContext(connections["default"]) as captured, transaction.atomic():
        note.enqueue(label="one")

    order = [one["sql"].split()[0].upper() for one in captured.captured_queries]
    assert [word for word in order if word != "SET"] == ["BEGIN", "INSERT", "COMMIT", "SELECT"]
    assert "pg_notify" in captured.captured_queries[-1]["sql"]
