"""An attempt ends at its timeout, whatever its body does, or its process does."""

from __future__ import annotations

import pytest

from tests.app.jobs import later, note, overlong, patient
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import Database, eventually
from ultimate_jobs import ANY_TENANT, cancel


@pytest.mark.parametrize("how", ["query", "compute", "swallow"])
def test_overlong_body_is_stopped_and_its_thread_goes_on(
    database: Database, start_worker: StartWorker, how: str
) -> None:
    """Each attempt fails by its code; the same thread then runs other jobs, undisturbed."""
    overlong.enqueue(label=how, how=how)
    worker = start_worker("--threads", "1")
    eventually(lambda: database.count("dead") == 1, what="two attempts timed out")
    note.enqueue_many([{"label": f"after {number}"} for number in range(50)])
    eventually(lambda: database.count("completed") == 50, what="the jobs after it")

    assert worker.stop() == 0
    assert database.effects(how) == 2
    assert database.rows("select detail ->> 'error_class' from x_job_events order by id") == [
        ("X_ATTEMPT_TIMEOUT",),
        ("X_ATTEMPT_TIMEOUT",),
    ]
    assert database.value("select count(*) from x_jobs where attempt > 1") == 1


def test_body_that_hangs_is_fenced_out_and_its_process_ends(
    database: Database, start_worker: StartWorker
) -> None:
    """Its failure is written while it hangs, and the exit code asks for a new process."""
    overlong.enqueue(label="hang", how="hang")
    settings = {"STUCK_AFTER": 0.5}
    first = start_worker("--threads", "2", settings=settings)

    code = first.wait(within=40)

    assert code == 1, first.log
    assert first.log_lines("jobs.attempt.stuck")
    assert database.rows("select state, attempt, lost_leases from x_jobs") == [("ready", 1, 0)]
    [(detail,)] = database.rows("select detail from x_job_events")
    assert detail["error_class"] == "X_ATTEMPT_TIMEOUT"
    assert "did not stop" in detail["message"]
    assert "time.sleep(600)" in detail["traceback"]
    second = start_worker("--threads", "2", settings=settings)
    eventually(lambda: database.count("dead") == 1, within=40, what="the last attempt")
    assert second.wait(within=40) == 1
    assert database.effects("hang") == 2


def test_retry_later_comes_again_without_using_up_attempts(
    database: Database, start_worker: StartWorker
) -> None:
    """Ten deferrals of a job with eight attempts, and it completes at its first."""
    later.enqueue(label="patient", times=10)
    worker = start_worker("--threads", "1")
    eventually(lambda: database.count("completed") == 1, what="the job done")

    assert worker.stop() == 0
    assert database.rows("select attempt, deferrals, last_error from x_jobs") == [(1, 10, None)]
    assert database.rows("select distinct type from x_job_events") == [("deferred",)]


def test_async_bodies_wait_without_a_thread_and_stop_at_a_cancel(
    database: Database, start_worker: StartWorker
) -> None:
    """Thirty bodies wait at once in a worker of one thread, and each is cancelled at its await."""
    patient.enqueue_many([{"label": f"{number}", "seconds": 600} for number in range(30)])
    worker = start_worker("--threads", "1")
    eventually(lambda: database.effects() == 30, what="thirty bodies at once")

    for [job_id] in database.rows("select id from x_jobs"):
        cancel(job_id, tenant=ANY_TENANT)
    eventually(lambda: database.count("cancelled") == 30, what="all cancelled")

    assert worker.stop() == 0
    assert database.rows("select distinct attempt, last_error from x_jobs") == [(0, None)]


def test_async_bodies_that_outlast_the_grace_are_handed_back(
    database: Database, start_worker: StartWorker
) -> None:
    """Uncounted, as sync ones are, and the process ends in time."""
    patient.enqueue_many([{"label": f"{number}", "seconds": 600} for number in range(5)])
    worker = start_worker("--threads", "1", "--grace", "0.5")
    eventually(lambda: database.effects() == 5, what="five bodies at once")

    assert worker.stop(within=20) == 1

    assert database.rows("select state, attempt, count(*) from x_jobs group by 1, 2") == [
        ("ready", 0, 5)
    ]
