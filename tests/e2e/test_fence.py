"""A worker that was stopped past its lease and continued can write nothing any more."""

from __future__ import annotations

from tests.app.jobs import gated, note
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import Database, Worker, eventually, fact

# The first worker writes its acks so late that they are pending when it is stopped.
LATE_ACKS = {"ACK_INTERVAL": 60}


def rows(database: Database) -> list[tuple[object, ...]]:
    """Return every job row with its version: an untouched row keeps its xmin."""
    return database.rows(
        "select id, state, worker, token, attempt, lost_leases, result, xmin::text"
        " from x_jobs order by id"
    )


def freeze_with_acks_pending(database: Database, worker: Worker) -> None:
    """Stop it with one outcome unwritten, two bodies about to return and one that will look."""
    gated.enqueue(label="first", gate="gate")
    gated.enqueue(label="looks", gate="gate", checks=True)
    note.enqueue(label="ended")
    eventually(lambda: database.effects("ended") == 1, what="a body that ended")
    # Its thread takes another job only after the outcome of the last was passed on.
    gated.enqueue(label="second", gate="gate")
    eventually(lambda: database.effects("second") == 1, what="its thread's next body")
    worker.freeze()
    assert database.count("running") == 4


def test_continue_past_lease_writes_nothing(database: Database, start_worker: StartWorker) -> None:
    """The second worker's rows stay as they are, and every late write is reported."""
    stopped = start_worker("--threads", "3", settings=LATE_ACKS)
    old = stopped.wait_until_started()
    freeze_with_acks_pending(database, stopped)

    database.open("gate")
    second = start_worker("--threads", "3")
    other = second.wait_until_started()
    eventually(lambda: database.count("completed") == 4, what="the second worker finished")
    before = rows(database)
    stopped.thaw()
    eventually(lambda: len(stopped.log_lines("jobs.claim.lost")) == 3, what="three late writes")

    assert [str(row[2]) for row in before] == [other] * 4
    assert [row[1:6] for row in before] == [("completed", before[0][2], 2, 1, 1)] * 4
    pids = [row[6] for row in before if isinstance(row[6], int)]
    assert pids == [second.pid] * 3
    assert rows(database) == before
    lost = stopped.log_lines("jobs.claim.lost")
    assert {fact(line, "worker") for line in lost} == {old}
    assert {fact(line, "token") for line in lost} == {"1"}
    [lease] = stopped.log_lines("jobs.worker.lease_lost")
    assert fact(lease, "worker") == old
    # The body that looked was interrupted, so it tried no write at all.
    looked = database.value("select job_id::text from testapp_effect where label = 'looks' limit 1")
    assert looked not in {fact(line, "job_id") for line in lost}
    assert database.rows("select type, count(*) from x_job_events group by type") == [
        ("rescued", 4)
    ]
    assert second.stop() == 0


def test_continue_past_lease_works_on_under_a_fresh_id(
    database: Database, start_worker: StartWorker
) -> None:
    """A worker that lost its lease is not lost itself."""
    worker = start_worker("--threads", "1")
    old = worker.wait_until_started()
    worker.freeze()
    eventually(
        lambda: database.value("select count(*) from x_job_leases where expires_at > x_now()") == 0,
        what="the end of the lease",
    )
    note.enqueue(label="later")

    worker.thaw()
    eventually(lambda: database.count("completed") == 1, what="a job after the lost lease")

    assert str(database.value("select worker from x_jobs")) != old
    assert worker.stop() == 0
    assert database.value("select count(*) from x_job_leases") == 0


def test_freeze_with_unstarted_claims_runs_none_of_them_late(
    database: Database, start_worker: StartWorker
) -> None:
    """What a stopped worker had in hand and not begun, it does not begin after its lease."""
    note.enqueue_many([{"label": f"quick {number}"} for number in range(20)])
    worker = start_worker("--threads", "1")
    eventually(lambda: database.count("completed") == 20, what="a worker that trusts its jobs")
    gated.enqueue(label="gated", gate="gate")
    note.enqueue_many([{"label": f"behind {number}"} for number in range(20)])
    eventually(lambda: database.count("running") > 1, what="claims in hand")
    worker.freeze()
    held = database.rows("select id from x_jobs where state = 'running'")
    began = database.effects("behind%")

    database.open("gate")
    second = start_worker("--threads", "1")
    eventually(lambda: database.count("completed") == 41, what="the second worker finished")
    worker.thaw()
    eventually(lambda: worker.log_lines("jobs.worker.lease_lost"), what="a lost lease noticed")

    assert len(held) > 1
    assert worker.stop() == 0
    assert second.stop() == 0
    assert database.effects("behind%") == 20 + began
