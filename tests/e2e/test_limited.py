"""Slots of processes that stop, and of processes that die."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import StartWorker
from tests.e2e.limited import limited
from tests.e2e.processes import Database, eventually

SCRIPT = str(Path(__file__).with_name("limited.py"))
# Those of the dead run until they are rescued, which may be a moment after their lease has ended.
RUNNING = (
    "select count(*) from x_jobs j join x_job_leases l on l.holder = j.worker"
    " where j.state = 'running' and l.kind = 'worker' and l.expires_at > x_now()"
)
# Bodies that began while the dead one's slot was still valid.
TOO_EARLY = "select count(*) from testapp_effect where label <> 'first' and started_at < %s"


def test_job_that_was_given_back_does_not_wait_for_its_own_slot(
    database: Database, start_worker: StartWorker
) -> None:
    """A stop frees the slot with the job, long before the lease would have ended."""
    settings = {"LEASE_TTL": 600, "HEARTBEAT": 1}
    limited.enqueue(label="first", gate="gate")
    stopped = start_worker("--grace", "0.2", script=SCRIPT, settings=settings)
    eventually(lambda: database.effects() == 1, what="a running body")
    stopped.stop()

    database.open("gate")
    second = start_worker(script=SCRIPT, settings=settings)
    eventually(lambda: database.count("completed") == 1, what="the job after the stop")

    assert second.stop() == 0
    assert database.effects("first") == 2
    assert database.rows("select attempt, lost_leases from x_jobs") == [(1, 0)]


def test_limit_holds_over_a_kill_until_the_lease_has_ended(
    database: Database, start_worker: StartWorker
) -> None:
    """The dead one counts, whatever starts meanwhile; then the slot is free by itself."""
    settings = {"LEASE_TTL": 4, "HEARTBEAT": 0.3}
    limited.enqueue(label="first", gate="gate")
    killed = start_worker("--threads", "3", script=SCRIPT, settings=settings)
    eventually(lambda: database.effects() == 1, what="a running body")
    limited.enqueue(label="second", gate="gate")
    limited.enqueue(label="third", gate="gate")
    killed.kill()
    ends_at = database.value("select max(expires_at) from x_job_leases")

    survivor = start_worker("--threads", "3", script=SCRIPT, settings=settings)
    eventually(lambda: database.effects() == 2, what="the next one")
    running = database.value(RUNNING)
    began_early = database.value(TOO_EARLY, ends_at)
    database.open("gate")
    eventually(lambda: database.count("completed") == 3, what="all three")

    assert running == 1
    assert began_early == 0
    assert survivor.stop() == 0
    assert database.rows("select sum(lost_leases)::int, max(attempt) from x_jobs") == [(1, 1)]
