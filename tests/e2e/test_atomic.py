"""The effects of atomic bodies happen exactly once, wherever their process dies."""

from __future__ import annotations

import random
import time

from tests.app.jobs import gated_once, once
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import Database, eventually
from tests.e2e.test_kill import KILLER

# Each is a moment at which a crash would lose or double an effect, if anything did.
POINTS = (
    "claimed",
    "atomic body ended",
    "completed, not committed",
    "committed, not told",
    "body ended",
)


def enqueue(count: int, *, first: int = 0, seconds: float = 0.0) -> None:
    numbers = range(first, first + count)
    once.enqueue_many([{"label": f"{number:05}", "seconds": seconds} for number in numbers])


def assert_exactly_once(database: Database, count: int) -> None:
    """Recounted from the effects: every job has one, and no job has two."""
    assert database.count("completed") == count
    assert database.rows("select count(*), count(distinct job_id) from testapp_effect") == [
        (count, count)
    ]


def test_kill_at_every_commit_point_keeps_effects_exactly_once(
    database: Database, start_worker: StartWorker
) -> None:
    """What was committed is completed, and what was not leaves nothing."""
    count = 0
    for point in POINTS:
        enqueue(10, first=count)
        count += 10
        victim = start_worker("--threads", "1", point, script=KILLER)
        code = victim.wait()
        left = database.rows(
            "select j.state, count(*), count(e.id) from x_jobs j"
            " left join testapp_effect e on e.job_id = j.id group by j.state order by j.state"
        )
        print(f"{point}: {left}")
        assert code == -9, (point, victim.log)
        # The effect and the end of its job are seen together, at every moment.
        assert [row for row in left if row[2] not in (0, row[1])] == []
        assert {row[0] for row in left if row[2]} <= {"completed"}
    survivor = start_worker("--threads", "4")
    eventually(lambda: database.count("completed") == count, what="all done")

    assert survivor.stop() == 0
    assert_exactly_once(database, count)


def test_kill_at_random_keeps_effects_exactly_once(
    database: Database, start_worker: StartWorker
) -> None:
    """Five workers die in the middle of their bodies and commits."""
    count = 1000
    enqueue(count, seconds=0.002)
    for number in range(5):
        worker = start_worker("--threads", "4")
        done = (number + 1) * count // 8
        eventually(lambda done=done: database.count("completed") >= done, what=f"{done} done")
        time.sleep(random.uniform(0, 0.05))
        worker.kill()
        print(f"kill {number}: {database.count('running')} running")
    last = start_worker("--threads", "4")
    eventually(lambda: database.count("completed") == count, within=60, what="all done")

    assert last.stop() == 0
    assert_exactly_once(database, count)
    assert database.value("select sum(lost_leases) from x_jobs") >= 5


def test_freeze_past_the_lease_undoes_what_the_body_wrote(
    database: Database, start_worker: StartWorker
) -> None:
    """A process that stood still past its lease cannot commit, though its connection is open."""
    job = gated_once.enqueue(label="frozen", gate="gate")
    frozen = start_worker("--threads", "1")
    eventually(lambda: database.count("running") == 1, what="a running body")
    eventually(
        lambda: database.value(
            "select count(*) from pg_stat_activity where xact_start is not null"
            " and pid <> pg_backend_pid() and datname = current_database()"
        ),
        what="an open transaction",
    )
    frozen.freeze()
    second = start_worker("--threads", "1")
    eventually(
        lambda: database.value("select token from x_jobs where id = %s", job.id) == 2,
        what="a second claim",
    )

    frozen.thaw()
    database.open("gate")
    eventually(lambda: database.count("completed") == 1, what="the job done")

    assert second.stop() == 0
    assert frozen.stop() == 0
    assert database.rows("select pid from testapp_effect") == [(second.pid,)]
