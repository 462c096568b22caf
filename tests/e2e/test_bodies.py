"""Whatever a body does, its job ends as written down and the worker goes on."""

from __future__ import annotations

from collections.abc import Callable

from tests.app.jobs import (
    asynchronous,
    flaky,
    gated,
    leaves,
    note,
    odd,
    poison,
    stubborn,
    suicide,
)
from tests.app.oddities import FAILING, HARMLESS
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import Database, eventually, fact
from ultimate_jobs import ANY_TENANT, cancel


def state_of(database: Database, key: str) -> str:
    return str(database.value("select state from x_jobs where idempotency_key = %s", key))


def test_odd_bodies_end_their_job_and_no_other(
    database: Database, start_worker: StartWorker
) -> None:
    """Each oddity is followed by an ordinary job in the same thread, which completes."""
    for what in (*FAILING, *HARMLESS):
        odd.enqueue(what=what)
        note.enqueue(label=f"after {what}")
    worker = start_worker("--burst", "--threads", "1")

    code = worker.wait()

    assert code == 0, worker.log
    ended = dict(
        database.rows(
            "select substr(idempotency_key, 5), state from x_jobs where name = 'tests.odd'"
        )
    )
    assert ended == {
        **dict.fromkeys(FAILING, "dead"),
        **dict.fromkeys(HARMLESS, "completed"),
    }
    assert database.rows("select distinct state from x_jobs where name = 'tests.note'") == [
        ("completed",)
    ]
    assert database.effects("never committed") == 0
    assert database.effects() == 2 * len(ended)
    assert database.value("select count(*) from x_job_events where type = 'dead'") == len(FAILING)


def test_failures_are_stored_in_words(database: Database, start_worker: StartWorker) -> None:
    """The error of each oddity can be read in its row and its history."""
    for what in FAILING:
        odd.enqueue(what=what)
    assert start_worker("--burst", "--threads", "1").wait() == 0

    errors = dict(database.rows("select substr(idempotency_key, 5), last_error from x_jobs"))

    assert errors["NUL in the error"] == "ValueError: bad \\x00 byte"
    assert errors["half a surrogate pair in the error"] == "ValueError: bad \\ud800 half"
    assert errors["SystemExit"] == "SystemExit: 7"
    assert errors["CancelledError"] == "asyncio.exceptions.CancelledError: "
    assert errors["NUL in the result"].startswith("X_RESULT_INVALID: ")
    assert "result.a" in errors["NUL in the result"]
    assert errors["open atomic()"].startswith("X_TRANSACTION_LEFT_OPEN: ")
    assert errors["BEGIN by hand"].startswith("X_TRANSACTION_LEFT_OPEN: ")
    assert all(len(error) < 10_000 for error in errors.values())
    assert database.value(
        "select detail ->> 'traceback' from x_job_events e join x_jobs j on j.id = e.job_id"
        " where j.idempotency_key = 'odd:endless recursion'"
    ).startswith("Traceback (most recent call last)")


def test_flaky_job_is_retried_until_it_succeeds(
    database: Database, start_worker: StartWorker
) -> None:
    """Two failures leave two events, and the third attempt completes."""
    flaky.enqueue(label="twice", failures=2)
    worker = start_worker()
    eventually(lambda: database.count("completed") == 1, what="success at last")

    assert worker.stop() == 0
    assert database.value("select attempt from x_jobs") == 3
    events = database.rows(
        "select type, attempt, detail ->> 'message' from x_job_events order by id"
    )
    assert events == [
        ("failed", 1, "attempt 1 of twice fails"),
        ("failed", 2, "attempt 2 of twice fails"),
    ]


def test_poison_job_ends_dead_after_its_attempts(
    database: Database, start_worker: StartWorker
) -> None:
    """Three attempts of three, and the last one's error is kept."""
    poison.enqueue(label="always")
    worker = start_worker("--burst")

    assert worker.wait() == 0
    assert database.rows("select state, attempt, last_error from x_jobs") == [
        ("dead", 3, "ValueError: attempt 3 of always fails")
    ]
    assert database.effects() == 3
    assert fact(worker.log_lines("jobs.attempt.dead")[0], "attempt") == "3"


def test_input_that_no_longer_fits_is_a_failed_attempt(
    database: Database, start_worker: StartWorker
) -> None:
    """A row that an older build wrote is refused with the field named, and retried."""
    note.enqueue(label="old")
    database.rows("""update x_jobs set payload = '{"name": "old"}'""")
    worker = start_worker("--burst")

    assert worker.wait() == 0
    state, attempt, error = database.rows("select state, attempt, last_error from x_jobs")[0]
    assert (state, attempt) == ("ready", 1)
    assert error.startswith("X_JOB_INPUT_INVALID: ")
    assert "label" in error


def test_name_that_no_worker_knows_stays_untouched(
    database: Database, start_worker: StartWorker
) -> None:
    """A job of another release waits for a worker that can run it."""
    note.enqueue(label="unknown")
    database.rows("update x_jobs set name = 'tests.of_the_next_release'")
    before = database.rows("select xmin::text, * from x_jobs")
    note.enqueue(label="known")

    assert start_worker("--burst").wait() == 0

    assert (
        database.rows("select xmin::text, * from x_jobs where name = 'tests.of_the_next_release'")
        == before
    )
    assert database.count("completed") == 1


def test_async_body_runs_to_its_end(database: Database, start_worker: StartWorker) -> None:
    """An ``async def`` completes like any other."""
    asynchronous.enqueue(label="async")

    assert start_worker("--burst").wait() == 0

    assert database.value("select result #>> '{}' from x_jobs") == "async"
    assert database.effects("async") == 1


def test_context_variables_end_with_their_body(
    database: Database, start_worker: StartWorker
) -> None:
    """What one body leaves in a context variable, the next in its thread does not find."""
    leaves.enqueue(label="first")
    leaves.enqueue(label="second")

    assert start_worker("--burst", "--threads", "1").wait() == 0

    assert database.rows("select distinct result #>> '{}' from x_jobs") == [("nothing",)]


def test_body_that_kills_its_process_ends_dead_after_the_cap(
    database: Database, start_worker: StartWorker
) -> None:
    """Each loss is recorded and uses up no attempt; the cap on lost leases ends it."""
    settings = {"MAX_LOST_LEASES": 2}
    suicide.enqueue(label="again")
    workers = [start_worker(settings=settings) for _ in range(2)]
    for number in (1, 2):
        eventually(
            lambda number=number: sum(w.process.poll() is not None for w in workers) == number,
            what=f"death {number}",
        )
    note.enqueue(label="others go on")
    last = start_worker(settings=settings)
    eventually(lambda: database.count("dead") == 1, what="the end of it")
    eventually(lambda: database.count("completed") == 1, what="another job")

    assert last.stop() == 0
    assert [worker.process.returncode for worker in workers] == [-9, -9]
    assert database.rows(
        "select attempt, lost_leases, left(last_error, 13) from x_jobs where state = 'dead'"
    ) == [(0, 2, "X_WORKER_GONE")]
    assert database.rows("select type from x_job_events order by id") == [("rescued",), ("dead",)]
    assert database.effects("again") == 2


def cancel_while_running(
    database: Database, start_worker: StartWorker, enqueue: Callable[[], object]
) -> None:
    enqueue()
    worker = start_worker()
    eventually(lambda: database.effects() == 1, what="a running body")
    cancel(database.value("select id from x_jobs"), tenant=ANY_TENANT)
    eventually(lambda: database.count("cancelled") == 1, what="a cancelled job")
    assert worker.stop() == 0
    assert worker.log_lines("jobs.attempt.cancelled")


def test_cancel_of_running_job_stops_it_at_its_check(
    database: Database, start_worker: StartWorker
) -> None:
    """The body learns of it with a heartbeat; no error and no retry follow."""
    cancel_while_running(
        database, start_worker, lambda: gated.enqueue(label="looks", gate="never", checks=True)
    )

    assert database.rows("select result, last_error from x_jobs") == [(None, None)]
    assert database.rows("select type from x_job_events order by id") == [
        ("cancel_requested",),
        ("cancelled",),
    ]


def test_body_that_swallows_its_cancel_never_completes(
    database: Database, start_worker: StartWorker
) -> None:
    """It returned a result all the same, and is cancelled all the same."""
    cancel_while_running(database, start_worker, lambda: stubborn.enqueue(label="stubborn"))

    assert database.effects("stubborn swallowed") == 1
    assert database.value("select result from x_jobs") is None
