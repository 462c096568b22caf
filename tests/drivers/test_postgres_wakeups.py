"""NOTIFY and LISTEN on PostgreSQL: what is sent, when, and on whose connection."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from tests.app.jobs import note
from tests.conftest import url_of
from ultimate_jobs.drivers.postgres import PostgresDriver, wakeups
from ultimate_jobs.drivers.postgres.wakeups import PostgresSubscription
from ultimate_jobs.errors import SettingInvalid

pytestmark = pytest.mark.django_db(transaction=True)


class _Abandon(Exception):
    """Leaves a block so that it rolls back."""


class Ear:
    """A session of another client that listens."""

    def __init__(self, url: str) -> None:
        self.session = psycopg.connect(url, autocommit=True)
        self.session.execute("listen x_jobs")

    def heard(self) -> list[str]:
        """Return all that was sent before this call."""
        # What is sent first arrives first, so nothing sent before this word comes after it.
        self.session.execute("select pg_notify('x_jobs', 'the end')")
        words: list[str] = []
        for one in self.session.notifies(timeout=20):
            if one.payload == "the end":
                return words
            words.append(one.payload)
        raise AssertionError(f"its own word never came: {words}")


@pytest.fixture
def ear(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ear]:
    # Of other tests this process told a moment ago.
    monkeypatch.setattr(wakeups, "_told", {})
    opened = Ear(url_of("default"))
    yield opened
    opened.session.close()


@pytest.fixture
def subscription() -> Iterator[PostgresSubscription]:
    opened = PostgresSubscription("default", None)
    yield opened
    opened.close()


@contextmanager
def abandoned() -> Iterator[None]:
    try:
        with transaction.atomic():
            yield
            raise _Abandon
    except _Abandon:
        pass


def test_enqueue_by_itself_is_told_at_once(ear: Ear) -> None:
    """In autocommit the job is there before the word is."""
    note.enqueue(label="one")

    assert ear.heard() == ["default"]


def test_enqueue_soon_after_another_is_not_told_again(
    ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever heard the first word looks a second time by then; another queue has its own word."""
    monkeypatch.setattr(wakeups, "QUIET", 60.0)

    for number in range(5):
        note.enqueue(label=f"{number}")
    note.using(queue="other").enqueue(label="other")

    assert ear.heard() == ["default", "other"]


def test_thousand_enqueues_of_one_transaction_are_told_once_per_queue(ear: Ear) -> None:
    """And by one statement for all the queues."""
    sent: list[str] = []

    def note_statement(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        sent.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note_statement), transaction.atomic():
        for number in range(500):
            note.enqueue(label=f"{number}")
            note.using(queue="other").enqueue(label=f"other {number}")
        silent = ear.heard()

    assert silent == []
    assert sorted(ear.heard()) == ["default", "other"]
    assert sum("pg_notify" in sql for sql in sent) == 1


def test_enqueues_in_many_savepoints_are_told_once(ear: Ear) -> None:
    """Each is a unit of its own to Django; the transaction is one."""
    with transaction.atomic():
        for number in range(50):
            with transaction.atomic():
                note.enqueue(label=f"{number}")
        with transaction.atomic(savepoint=False):
            note.enqueue(label="without")

    assert ear.heard() == ["default"]


def test_rollback_sends_nothing(ear: Ear) -> None:
    """There is no work."""
    with abandoned():
        note.enqueue(label="never")

    assert ear.heard() == []


def test_rollback_of_a_savepoint_takes_back_only_its_own_word(ear: Ear) -> None:
    """What was enqueued around it is told, and what replaced it too."""
    with transaction.atomic():
        note.using(queue="kept").enqueue(label="kept")
        with abandoned():
            note.using(queue="undone").enqueue(label="undone")
            note.using(queue="again").enqueue(label="undone too")
        note.using(queue="again").enqueue(label="again")

    assert sorted(ear.heard()) == ["again", "kept"]


def test_enqueue_after_a_rolled_back_savepoint_is_told(ear: Ear) -> None:
    """The word that went with the savepoint does not stand for the next one."""
    with transaction.atomic():
        with abandoned():
            note.enqueue(label="undone")
        note.enqueue(label="done")

    assert ear.heard() == ["default"]


def test_transaction_after_a_rollback_is_told(ear: Ear, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is left on the connection."""
    monkeypatch.setattr(wakeups, "QUIET", 0.0)
    with abandoned():
        note.enqueue(label="undone")
    with transaction.atomic():
        note.enqueue(label="done")
    with transaction.atomic():
        note.enqueue(label="and another")

    assert ear.heard() == ["default", "default"]


def test_callback_that_enqueues_is_told(ear: Ear) -> None:
    """In its own transaction as without one."""

    def later() -> None:
        note.using(queue="plain").enqueue(label="plain")
        with transaction.atomic():
            note.using(queue="wrapped").enqueue(label="wrapped")

    with transaction.atomic():
        transaction.on_commit(later)
        note.enqueue(label="first")

    assert sorted(ear.heard()) == ["default", "plain", "wrapped"]


def test_word_is_sent_by_the_callers_own_connection(ear: Ear) -> None:
    """No second connection is opened by an enqueue."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        [pid] = cursor.fetchone()
    with transaction.atomic():
        note.enqueue(label="one")

    [word] = list(ear.session.notifies(timeout=20, stop_after=1))

    assert word.pid == pid


def test_manual_transaction_is_told_nothing_and_breaks_nothing(ear: Ear) -> None:
    """Without autocommit nobody says when the commit is; polling finds the job."""
    transaction.set_autocommit(False)
    try:
        note.enqueue(label="one")
        transaction.commit()
    finally:
        transaction.set_autocommit(True)

    assert ear.heard() == []


@pytest.mark.parametrize("wrapped", [True, False])
def test_word_that_cannot_be_sent_fails_nobody(
    wrapped: bool, ear: Ear, caplog: pytest.LogCaptureFixture
) -> None:
    """The job is stored and the caller goes on; the log says so once for an outage."""

    def refuse(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "pg_notify" in sql:
            raise RuntimeError("no words today")
        return execute(sql, params, many, context)

    ran: list[str] = []
    with connection.execute_wrapper(refuse), caplog.at_level(logging.WARNING):
        for number in range(3):
            if wrapped:
                with transaction.atomic():
                    note.enqueue(label=f"{number}")
                    transaction.on_commit(lambda: ran.append("after"))
            else:
                note.enqueue(label=f"{number}")
                ran.append("after")
    note.enqueue(label="well again")

    assert ran == ["after"] * 3
    assert caplog.text.count("jobs.wakeup.failed") == 1
    assert ear.heard() == ["default"]


def test_testcase_sends_nothing(ear: Ear) -> None:
    """A test that never commits tells nobody."""
    with transaction.atomic():
        note.enqueue(label="one")
        transaction.set_rollback(True)

    assert ear.heard() == []


# --- listening -------------------------------------------------------------------------------


def test_subscription_hears_what_is_announced(subscription: PostgresSubscription) -> None:
    """All that came while it did not look is there at the next look."""
    subscription.open()
    subscription.listen()
    driver = PostgresDriver("default")

    driver.wakeups.announce(["one", "two"])
    heard: set[str] = set()
    while heard != {"one", "two"}:
        fresh = subscription.wait(20)
        assert fresh, heard
        heard |= fresh


def test_subscription_to_the_server_itself_is_not_pooled(
    subscription: PostgresSubscription,
) -> None:
    """The server's number of the session is the one it told us."""
    subscription.open()

    assert subscription.is_pooled is False


def test_subscription_that_hears_nothing_returns(subscription: PostgresSubscription) -> None:
    """With nothing."""
    subscription.open()
    subscription.listen()

    assert subscription.wait(0.01) == frozenset()


def test_subscription_uses_no_connection_of_django(subscription: PostgresSubscription) -> None:
    """It is a session of its own."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        [ours] = cursor.fetchone()
        subscription.open()
        subscription.listen()
        cursor.execute(
            "select pid from pg_stat_activity where datname = current_database() "
            "and query ilike 'listen x_jobs%%' and pid <> %s",
            [ours],
        )
        assert len(cursor.fetchall()) == 1


def test_subscription_of_an_ended_session_raises_djangos_error(
    subscription: PostgresSubscription,
) -> None:
    """So that the loop around it takes it for what passes, and it can be opened again."""
    from django.db.utils import OperationalError

    subscription.open()
    subscription.listen()
    with connection.cursor() as cursor:
        cursor.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and query ilike 'listen x_jobs%%'"
        )
    with pytest.raises(OperationalError):
        listen_on(subscription)

    subscription.close()
    subscription.open()
    subscription.listen()
    PostgresDriver("default").wakeups.announce(["back"])
    assert subscription.wait(20) == {"back"}


def listen_on(subscription: PostgresSubscription) -> None:
    while True:
        subscription.wait(1)


def test_address_replaces_parts_and_keeps_the_rest() -> None:
    """The password need not be written a second time."""
    given = connection.settings_dict
    host = given["HOST"] or given["OPTIONS"]["host"]
    nowhere = PostgresSubscription("default", "host=127.0.0.1 port=1 connect_timeout=2")
    same = PostgresSubscription("default", f"host={host}")

    same.open()
    same.close()
    with pytest.raises(Exception, match="port"):
        nowhere.open()


@pytest.mark.parametrize("address", ["postgresql://user:s3cret@[bad", "host=db password='s3cret"])
def test_address_that_cannot_be_read_is_refused_without_its_password(address: str) -> None:
    """Before the worker claims anything."""
    with pytest.raises(SettingInvalid) as refused:
        PostgresDriver("default").wakeups.subscription(address)

    assert '"LISTEN"' in refused.value.cause
    assert "s3cret" not in str(refused.value)
    assert refused.value.__cause__ is None
