"""A whole worker in this process, over PostgreSQL: its threads have connections of their own."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection, transaction
from django.db.backends.signals import connection_created
from django.db.utils import OperationalError
from django.test import override_settings

from tests.app.jobs import asynchronous, flaky, gated, leaves, noop, note, poison
from tests.app.models import Effect
from ultimate_jobs import ANY_TENANT, get
from ultimate_jobs.drivers import current_driver
from ultimate_jobs.processes.worker import Worker
from ultimate_jobs.states import JobState

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = 20
TERMINATE_OTHERS = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where datname = current_database() and pid <> pg_backend_pid()"
)


def rows(query: str, *values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return cursor.fetchall() if cursor.description else []


def burst(**options: Any) -> Worker:
    """Run what is due, in this thread, to its end."""
    worker = Worker(current_driver(), burst=True, **{"threads": 2, **options})
    assert worker.run()
    return worker


def wait_for(condition: Callable[[], Any]) -> None:
    for _ in range(PATIENCE * 100):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("not in time")


@pytest.fixture
def background() -> Iterator[Callable[..., Worker]]:
    """Start workers in threads of their own; each is stopped at the end and must end clean."""
    started: list[tuple[Worker, threading.Thread, list[bool]]] = []

    def start(**options: Any) -> Worker:
        worker = Worker(current_driver(), **{"threads": 2, **options})
        clean: list[bool] = []

        def run() -> None:
            try:
                clean.append(worker.run())
            finally:
                connection.close()

        thread = threading.Thread(target=run)
        started.append((worker, thread, clean))
        thread.start()
        return worker

    yield start
    for worker, thread, clean in started:
        worker.stop()
        thread.join(PATIENCE)
        assert clean == [True]


def test_flaky_job_is_retried_until_it_succeeds(background: Callable[..., Worker]) -> None:
    """Two failures leave two events, and the third attempt completes."""
    handle = flaky.enqueue(label="twice", failures=2)

    background()
    wait_for(lambda: get(handle.id, tenant=ANY_TENANT).state is JobState.COMPLETED)

    assert get(handle.id, tenant=ANY_TENANT).attempt == 3
    assert rows("select type, attempt, detail ->> 'message' from x_job_events order by id") == [
        ("failed", 1, "attempt 1 of twice fails"),
        ("failed", 2, "attempt 2 of twice fails"),
    ]


def test_poison_job_ends_dead_after_its_attempts(heard: list[tuple[str, dict[str, Any]]]) -> None:
    """Three attempts of three, the last one's error is kept, and each end is told."""
    poison.enqueue(label="always")

    burst()

    assert rows("select state, attempt, last_error from x_jobs") == [
        ("dead", 3, "ValueError: attempt 3 of always fails")
    ]
    assert Effect.objects.count() == 3
    told = [name for name, _ in heard if name.startswith("jobs.attempt.")]
    assert told == ["jobs.attempt.failed", "jobs.attempt.failed", "jobs.attempt.dead"]


def test_input_that_no_longer_fits_is_a_failed_attempt() -> None:
    """A row that an older build wrote is refused with the field named, and retried."""
    note.enqueue(label="old")
    rows("""update x_jobs set payload = '{"name": "old"}'""")

    burst()

    [(state, attempt, error)] = rows("select state, attempt, last_error from x_jobs")
    assert (state, attempt) == ("ready", 1)
    assert error.startswith("X_JOB_INPUT_INVALID: ")
    assert "label" in error


def test_name_that_no_worker_knows_stays_untouched() -> None:
    """A job of another release waits for a worker that can run it."""
    note.enqueue(label="unknown")
    rows("update x_jobs set name = 'tests.of_the_next_release'")
    unknown = "select xmin::text, * from x_jobs where name = 'tests.of_the_next_release'"
    before = rows(unknown)
    note.enqueue(label="known")

    worker = burst()

    assert rows(unknown) == before
    assert worker.tally.completed == 1


def test_async_body_runs_to_its_end() -> None:
    """An ``async def`` that uses the async ORM completes like any other."""
    handle = asynchronous.enqueue(label="async")

    burst()

    assert handle.result(timeout=1) == "async"
    assert Effect.objects.filter(label="async").count() == 1


def test_context_variables_end_with_their_body() -> None:
    """What one body leaves in a context variable, the next in its thread does not find."""
    handles = [leaves.enqueue(label=label) for label in ("first", "second")]

    burst(threads=1)

    assert [handle.result(timeout=1) for handle in handles] == ["nothing", "nothing"]


def test_row_that_another_transaction_holds_is_written_when_it_is_free(
    background: Callable[..., Worker], database_url: str
) -> None:
    """A caller that keeps its transaction open delays the end of that job, and of no other."""
    held = gated.enqueue(label="held", gate="gate")
    worker = background(threads=1)
    wait_for(lambda: Effect.objects.count() == 1)

    with transaction.atomic():
        again = gated.using(on_conflict="rerun").enqueue(label="held", gate="gate")
        with psycopg.connect(database_url, autocommit=True) as outside:
            outside.execute("insert into testapp_document (name, version) values ('gate', 1)")
            note_id = enqueue_outside(outside, held.id)
            wait_for(lambda: worker.tally.completed == 1)
            running = outside.execute("select id from x_jobs where state = 'running'").fetchall()
    wait_for(lambda: worker.tally.completed == 3)

    assert again.deduped
    assert running == [(held.id,)]
    assert get(note_id, tenant=ANY_TENANT).state is JobState.COMPLETED
    assert Effect.objects.filter(label="held").count() == 2


def enqueue_outside(outside: psycopg.Connection[Any], like: UUID) -> UUID:
    """Add an ordinary job over a connection that is in no transaction."""
    [[job_id]] = outside.execute(
        "insert into x_jobs (id, run_id, name, queue, idempotency_key, payload, state)"
        " select gen_random_uuid(), gen_random_uuid(), 'tests.note', queue, 'note:other',"
        " '{\"label\": \"other\"}', 'ready' from x_jobs where id = %s returning id",
        [like],
    ).fetchall()
    return UUID(str(job_id))


class Faulty:
    """The real driver, whose every verb first fails, once with each error of a list."""

    VERBS = ("claim", "ack", "nack", "heartbeat")

    def __init__(self, errors: Sequence[Exception]) -> None:
        self._driver = current_driver()
        self._left = {verb: list(errors) for verb in self.VERBS}
        self.raised: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._driver, name)
        return self._failing(name, found) if name in self._left and name != "claim" else found

    def claimer(self, **options: Any) -> Any:
        claimer = self._driver.claimer(**options)
        return SimpleNamespace(claim=self._failing("claim", claimer.claim), owed_in=None)

    def _failing(self, verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*args: Any) -> Any:
            # The rehearsal at the start, on nothing, is not what is meant to fail.
            is_real = verb not in ("ack", "nack") or args[1][0].token > 0
            if is_real and self._left[verb]:
                self.raised[verb] += 1
                raise self._left[verb].pop()
            return call(*args)

        return failing


def as_django_raises(cause: psycopg.Error | None) -> Exception:
    error = OperationalError("on purpose")
    error.__cause__ = cause
    return error


@override_settings(ULTIMATE_JOBS={"HEARTBEAT": 0.05, "LEASE_TTL": 20})
def test_passing_errors_in_every_statement_lose_nothing() -> None:
    """Deadlock, serialization failure, timeouts and a lost connection: tried again until done."""
    driver = Faulty(
        [
            as_django_raises(psycopg.errors.DeadlockDetected()),
            as_django_raises(psycopg.errors.SerializationFailure()),
            as_django_raises(psycopg.errors.QueryCanceled()),
            as_django_raises(psycopg.errors.LockNotAvailable()),
            as_django_raises(None),
        ]
    )
    note.enqueue_many([{"label": f"{number}"} for number in range(20)])
    poison.enqueue(label="fails")

    worker = Worker(driver, burst=True, threads=2)  # type: ignore[arg-type]

    assert worker.run()
    assert (worker.tally.completed, worker.tally.dead, worker.tally.lost) == (20, 1, 0)
    assert Effect.objects.exclude(label="fails").count() == 20
    assert driver.raised["claim"] == driver.raised["ack"] == driver.raised["nack"] == 5
    assert driver.raised["heartbeat"] > 0


@override_settings(ULTIMATE_JOBS={"HEARTBEAT": 0.1, "LEASE_TTL": 20, "POLL": 0.05})
def test_connections_that_turn_read_only_are_replaced(
    background: Callable[..., Worker], heard: list[tuple[str, dict[str, Any]]]
) -> None:
    """After a failover the old primary takes no writes: its connections are of no further use."""
    demoted = threading.Event()

    def demote(connection: Any, **_: Any) -> None:
        if demoted.is_set() and threading.current_thread() is not threading.main_thread():
            connection.connection.execute("set default_transaction_read_only = on")

    def refused() -> set[str]:
        return {facts["loop"] for _, facts in heard if facts.get("sqlstate") == "25006"}

    worker = background()
    wait_for(lambda: "jobs.worker.started" in [name for name, _ in heard])
    connection_created.connect(demote)
    try:
        demoted.set()
        rows(TERMINATE_OTHERS)
        noop.enqueue_many([{"label": f"{number}"} for number in range(10)])
        wait_for(lambda: {"fetcher", "heartbeat"} <= refused())
        done_while_demoted = worker.tally.completed
        demoted.clear()
        wait_for(lambda: worker.tally.completed == 10)
    finally:
        connection_created.disconnect(demote)

    assert done_while_demoted == 0


@override_settings(DEBUG=True)
def test_debug_keeps_no_queries(background: Callable[..., Worker]) -> None:
    """A worker under DEBUG does not collect the SQL of its loops and bodies."""
    opened: list[Any] = []

    def note_opened(connection: Any, **_: Any) -> None:
        opened.append(connection)

    connection_created.connect(note_opened)
    try:
        noop.enqueue_many([{"label": f"{number}"} for number in range(300)])
        worker = background()
        wait_for(lambda: worker.tally.completed == 300)
        kept = [len(one.queries_log) for one in opened]
    finally:
        connection_created.disconnect(note_opened)

    assert kept
    assert max(kept) < 20
