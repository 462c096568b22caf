"""Whatever a body does, its job ends as written down and the worker goes on."""

from __future__ import annotations

from tests.app.jobs import burn, gated, note, odd, stubborn, suicide
from tests.app.oddities import FAILING, HARMLESS
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import Database, eventually
from ultimate_jobs import ANY_TENANT, cancel


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
    assert_told_in_words(database)


def assert_told_in_words(database: Database) -> None:
    """The error of each oddity can be read in its row and its history."""
    errors = dict(
        database.rows(
            "select substr(idempotency_key, 5), last_error from x_jobs where state = 'dead'"
        )
    )
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


def test_cancel_stops_a_running_job_whatever_its_body_makes_of_it(
    database: Database, start_worker: StartWorker
) -> None:
    """One body lets the interruption pass, one swallows it and returns a result: both cancelled."""
    gated.enqueue(label="lets it pass", gate="never", checks=True)
    stubborn.enqueue(label="stubborn")
    worker = start_worker()
    eventually(lambda: database.effects() == 2, what="two running bodies")

    for [job_id] in database.rows("select id from x_jobs"):
        cancel(job_id, tenant=ANY_TENANT)
    eventually(lambda: database.count("cancelled") == 2, what="two cancelled jobs")

    assert worker.stop() == 0
    assert database.effects("stubborn swallowed") == 1
    assert database.rows("select distinct result, last_error, attempt from x_jobs") == [
        (None, None, 0)
    ]
    assert database.rows("select type, count(*) from x_job_events group by type order by type") == [
        ("cancel_requested", 2),
        ("cancelled", 2),
    ]
    assert len(worker.log_lines("jobs.attempt.cancelled")) == 2


def test_bodies_that_burn_the_processor_do_not_cost_the_lease(
    database: Database, start_worker: StartWorker
) -> None:
    """Renewals come through ten threads of pure Python, and nobody rescues what runs."""
    # Each renewal waits for the interpreter some twenty times, behind ten turns of 5 ms.
    burn.enqueue_many([{"label": f"{number}", "seconds": 7.0} for number in range(10)])
    worker = start_worker("--threads", "10", "--burst", settings={"LEASE_TTL": 5})
    eventually(lambda: database.count("running") == 10, what="ten busy threads")
    other = start_worker()

    assert worker.wait() == 0
    assert other.stop() == 0
    assert database.rows("select distinct state, token, attempt, lost_leases from x_jobs") == [
        ("completed", 1, 1, 0)
    ]
    assert database.effects() == 10
