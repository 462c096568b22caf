"""SIGTERM and SIGINT: what runs may end, what waits goes back, and a second signal ends it all."""

from __future__ import annotations

import json
import signal
import time
from datetime import timedelta
from pathlib import Path

import pytest

from tests.app.jobs import gated, slow, work
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import Database, Worker, eventually, fact


def test_terminate_under_load_lets_running_end_and_hands_back_the_rest(
    database: Database, start_worker: StartWorker
) -> None:
    """Exit 0 in time, nothing lost or counted, and no lease left to wait for."""
    work.enqueue_many([{"label": f"{number:04}", "seconds": 0.02} for number in range(400)])
    worker = start_worker("--threads", "4", "--grace", "20", "--json")
    eventually(lambda: database.count("completed") > 40, what="a worker under load")

    began = time.monotonic()
    code = worker.stop()

    assert code == 0, worker.log
    assert time.monotonic() - began < 5
    assert database.count("running") == 0
    assert database.rows("select distinct attempt from x_jobs where state = 'ready'") == [(0,)]
    assert database.value("select count(*) from x_job_leases") == 0
    assert database.value("select count(*) from x_job_events") == 0
    assert database.effects() == database.count("completed")
    [back] = worker.log_lines("jobs.worker.handed_back")
    assert fact(back, "reason") == "SIGTERM"
    assert worker.process.stdout is not None
    summary = json.loads(worker.process.stdout.read())
    assert summary["completed"] == database.count("completed")
    assert summary["handed_back"] == int(fact(back, "count")) > 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_exits_when_the_last_body_ends(
    number: signal.Signals, database: Database, start_worker: StartWorker
) -> None:
    """Not at the end of the grace; and what ended within it is completed, at its first attempt."""
    slow.enqueue(label="ends in the grace", seconds=1.0)
    worker = start_worker("--grace", "30")
    eventually(lambda: database.effects() == 1, what="a running body")

    began = time.monotonic()
    worker.send(number)
    code = worker.wait()

    assert code == 0, worker.log
    assert time.monotonic() - began < 5
    assert database.rows("select state, attempt, lost_leases from x_jobs") == [("completed", 1, 0)]


def test_terminate_keeps_the_lease_of_what_still_runs(
    database: Database, start_worker: StartWorker
) -> None:
    """During the grace nobody else gets a running job, however long past one lease."""
    gated.enqueue(label="long", gate="gate")
    worker = start_worker("--grace", "30")
    eventually(lambda: database.effects() == 1, what="a running body")
    other = start_worker()
    other.wait_until_started()

    worker.send(signal.SIGTERM)
    renewals = "select count(distinct renewed_at) from x_job_leases"
    eventually(lambda: worker.log_lines("jobs.worker.stopping"), what="a stopping worker")
    stopping = database.value("select clock_timestamp()")
    eventually(
        lambda: database.value(
            "select min(renewed_at) > %s::timestamptz + interval '2 s' from x_job_leases", stopping
        ),
        what="renewals past one lease",
    )
    assert database.value(renewals) == 2
    database.open("gate")

    assert worker.wait() == 0
    assert database.rows("select state, attempt, token from x_jobs") == [("completed", 1, 1)]
    assert database.effects() == 1
    assert other.stop() == 0


def test_terminate_hands_back_what_outlasts_the_grace(
    database: Database, start_worker: StartWorker
) -> None:
    """Deploys use up none of a job's attempts, and its body has ended before it is free."""
    gated.enqueue(label="too long", gate="gate")
    for deploy in range(2):
        worker = start_worker("--grace", "0.2")
        eventually(lambda deploy=deploy: database.effects() == deploy + 1, what="a running body")
        assert worker.stop() == 1, worker.log
        assert database.rows("select state, attempt, lost_leases from x_jobs") == [("ready", 0, 0)]
        assert database.value("select count(*) from x_job_leases") == 0
        # Nobody may claim it before this process is gone for certain.
        assert database.value("select run_at > updated_at from x_jobs")
        assert worker.log_lines("jobs.worker.handed_back")

    database.open("gate")
    last = start_worker()
    eventually(lambda: database.count("completed") == 1, what="the job after its deploys")
    assert last.stop() == 0
    assert database.value("select attempt from x_jobs") == 1


def test_second_signal_ends_at_once(database: Database, start_worker: StartWorker) -> None:
    """Whatever is left of the grace; the job goes back uncounted."""
    gated.enqueue(label="too long", gate="gate")
    worker = start_worker("--grace", "600")
    eventually(lambda: database.effects() == 1, what="a running body")
    worker.send(signal.SIGINT)
    eventually(lambda: worker.log_lines("jobs.worker.stopping"), what="a stopping worker")

    began = time.monotonic()
    worker.send(signal.SIGTERM)
    code = worker.wait()

    assert code == 1
    assert time.monotonic() - began < 4
    assert database.rows("select state, attempt from x_jobs") == [("ready", 0)]


def test_burst_ends_when_nothing_is_due_and_ignores_the_future(
    database: Database, start_worker: StartWorker
) -> None:
    """What is due runs, children included; what is not does not hold it up."""
    work.enqueue_many([{"label": f"{number:02}"} for number in range(30)])
    work.using(run_after=timedelta(days=1)).enqueue(label="tomorrow")
    worker = start_worker("--burst")

    code = worker.wait()

    assert code == 0, worker.log
    assert database.count("completed") == 30
    assert database.count("delayed") == 1


def test_once_claims_a_single_time(database: Database, start_worker: StartWorker) -> None:
    """At most one job per thread, and the process ends."""
    work.enqueue_many([{"label": f"{number:02}"} for number in range(30)])

    assert start_worker("--once", "--threads", "2").wait() == 0

    assert database.count("completed") == 2
    assert database.count("ready") == 28


def test_queues_are_the_only_ones_served(database: Database, start_worker: StartWorker) -> None:
    """Jobs of other queues are left untouched."""
    for queue in ("first", "second", "third"):
        work.using(queue=queue).enqueue(label=queue)

    assert start_worker("--burst", "--queues", "first, third").wait() == 0

    left = database.rows("select queue, state, token from x_jobs order by queue")
    assert left == [("first", "completed", 1), ("second", "ready", 0), ("third", "completed", 1)]


def test_start_without_database_refuses_in_words(tmp_path: Path) -> None:
    """No traceback: the code, the cause and what to run."""
    nowhere = Database(f"postgresql://postgres@/postgres?host={tmp_path}")
    worker = Worker(nowhere, tmp_path / "worker.log", "--burst")

    code = worker.wait()
    worker.end()

    assert code == 1
    assert "X_DATABASE_UNAVAILABLE" in worker.log
    assert "Traceback" not in worker.log
