"""SIGKILL loses nothing, wherever it hits."""

from __future__ import annotations

from pathlib import Path

from tests.app.jobs import work
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import Database, eventually

KILLER = str(Path(__file__).with_name("killed_at.py"))


# The second rescues what the first died with; all others leave theirs to the survivor.
POINTS = (
    "claimed",
    "rescued",
    "lease taken",
    "body ended",
    "outcome collected",
    "acknowledged",
    "handed back",
    "lease released",
)
STANDING = "select count(*) from x_job_leases where kind = 'worker' and expires_at > x_now()"


def enqueue(count: int, *, first: int = 0, seconds: float = 0.0) -> None:
    numbers = range(first, first + count)
    work.enqueue_many([{"label": f"{number:05}", "seconds": seconds} for number in numbers])


def assert_nothing_was_lost(database: Database, count: int) -> None:
    """Recounted from the bodies' effects and from the rows."""
    assert database.rows("select state, count(*) from x_jobs group by state") == [
        ("completed", count)
    ]
    assert database.value("select count(distinct job_id) from testapp_effect") == count
    assert (
        database.value(
            "select count(*) from x_jobs j where not exists"
            " (select from testapp_effect e where e.job_id = j.id)"
        )
        == 0
    )


def test_kill_five_times_over_loses_nothing(database: Database, start_worker: StartWorker) -> None:
    """Every job completes and every body ran, though five workers died in the middle."""
    count, kills = 2_000, 5
    enqueue(count, seconds=0.002)

    for number in range(kills):
        worker = start_worker("--threads", "4")
        done = (number + 1) * count // (kills + 2)
        eventually(lambda done=done: database.count("completed") >= done, what=f"{done} done")
        worker.kill()
        hit = database.rows(
            "select count(*) filter (where j.state = 'running'),"
            " count(*) filter (where j.state = 'running' and e.id is not null),"
            " count(*) filter (where j.state = 'completed')"
            " from x_jobs j left join testapp_effect e"
            " on e.job_id = j.id and e.attempt = j.attempt and e.pid = %s",
            worker.pid,
        )[0]
        print(f"kill {number}: running {hit[0]}, of them with their effect {hit[1]}, done {hit[2]}")
        assert hit[0] > 0, "the kill hit nothing"
    last = start_worker("--threads", "4")
    eventually(lambda: database.count("completed") == count, within=60, what="all done")

    assert last.stop() == 0
    assert_nothing_was_lost(database, count)
    again = database.effects() - count
    lost = database.value("select sum(lost_leases) from x_jobs")
    print(f"{lost} claims lost, {again} bodies ran again")
    assert lost >= kills
    assert database.value("select max(attempt) from x_jobs") == 1


def test_kill_at_every_commit_point_loses_nothing(
    database: Database, start_worker: StartWorker
) -> None:
    """Workers that die right before or after each of their commits leave work that can go on."""
    count = 0
    for point in POINTS:
        enqueue(20, first=count)
        count += 20
        if point == "rescued":
            eventually(lambda: database.value(STANDING) == 0, what="the end of the first's lease")
        victim = start_worker("--threads", "1", point, script=KILLER)
        code = victim.wait()
        left = database.rows("select state, count(*) from x_jobs group by state order by state")
        print(f"{point}: {left}")
        assert code == -9, (point, victim.log)
    survivor = start_worker("--threads", "4")
    eventually(lambda: database.count("completed") == count, what="all done")

    assert survivor.stop() == 0
    assert_nothing_was_lost(database, count)
    assert database.value("select max(attempt) from x_jobs") == 1
