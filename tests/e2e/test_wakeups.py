"""An idle worker begins at once, though it polls rarely; and a deaf one begins all the same."""

from __future__ import annotations

import time

from tests.app.jobs import work
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import Database, Worker, eventually, fact

RARELY = {"POLL": 30, "LEASE_TTL": 30, "HEARTBEAT": 5}
LISTENERS = "from pg_stat_activity where datname = current_database() and query ilike 'listen %%'"


def idle(worker: Worker) -> None:
    """Return when it has looked, found nothing, and pauses."""
    worker.wait_until_started()
    eventually(lambda: worker.log_lines("jobs.worker.listening"), what="a listening worker")


def test_word_wakes_an_idle_worker_at_once(database: Database, start_worker: StartWorker) -> None:
    """Each of several jobs begins long before the next poll."""
    worker = start_worker("--threads", "2", settings=RARELY)
    idle(worker)

    began = time.monotonic()
    for number in range(5):
        work.enqueue(label=f"{number}")
        eventually(lambda number=number: database.count("completed") == number + 1)

    assert time.monotonic() - began < 15
    assert worker.stop() == 0


def test_word_of_another_queue_leaves_a_worker_idle(
    database: Database, start_worker: StartWorker
) -> None:
    """It is told by queue."""
    worker = start_worker("--queues", "mine", settings=RARELY)
    idle(worker)

    work.using(queue="not mine").enqueue(label="other")
    work.using(queue="mine").enqueue(label="mine")
    eventually(lambda: database.count("completed") == 1)

    assert database.rows("select queue, state from x_jobs order by queue") == [
        ("mine", "completed"),
        ("not mine", "ready"),
    ]
    assert worker.stop() == 0


def test_worker_that_lost_its_ear_finds_what_it_missed(
    database: Database, start_worker: StartWorker
) -> None:
    """What was announced while it was deaf is found when it hears again, not at the next poll."""
    worker = start_worker(settings=RARELY)
    idle(worker)

    database.rows(f"select pg_terminate_backend(pid) {LISTENERS}")
    work.enqueue(label="said to nobody")
    eventually(lambda: database.count("completed") == 1)
    [deaf] = eventually(lambda: worker.log_lines("jobs.worker.deaf"), what="a deaf worker")

    eventually(lambda: len(worker.log_lines("jobs.worker.listening")) == 2, what="a new ear")
    work.enqueue(label="heard")
    eventually(lambda: database.count("completed") == 2)

    assert fact(deaf, "reason") == "OperationalError"
    assert worker.stop() == 0


def test_worker_that_does_not_listen_polls(database: Database, start_worker: StartWorker) -> None:
    """``LISTEN: False`` opens no connection for it, and every job runs."""
    worker = start_worker(settings={"LISTEN": False})
    worker.wait_until_started()

    work.enqueue(label="found")
    eventually(lambda: database.count("completed") == 1)

    assert database.value(f"select count(*) {LISTENERS}") == 0
    assert worker.stop() == 0


def test_worker_with_a_wrong_address_polls_and_hides_the_password(
    database: Database, start_worker: StartWorker
) -> None:
    """It says that it is deaf, and goes on."""
    address = "postgresql://nobody:s3cret@127.0.0.1:1/nowhere?connect_timeout=1"
    worker = start_worker(settings={"LISTEN": address})
    worker.wait_until_started()

    work.enqueue(label="found")
    eventually(lambda: database.count("completed") == 1)
    eventually(lambda: worker.log_lines("jobs.worker.deaf"), what="a deaf worker")

    assert worker.stop() == 0
    assert "s3cret" not in worker.log


def test_worker_with_an_address_that_cannot_be_read_is_refused(
    database: Database, start_worker: StartWorker
) -> None:
    """Before it claims anything, by the setting's name."""
    worker = start_worker(settings={"LISTEN": "host=db password='s3cret"})

    assert worker.wait() == 1
    assert "X_SETTING_INVALID" in worker.log
    assert '"LISTEN"' in worker.log
    assert "s3cret" not in worker.log
    assert "Traceback" not in worker.log
