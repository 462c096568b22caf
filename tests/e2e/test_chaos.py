"""Long runs in which workers die, freeze and come back at random."""

from __future__ import annotations

import random
import signal
import time

import pytest

from tests.app.jobs import work
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import Database, Worker, eventually

COUNT = 10_000
SECONDS = 60


@pytest.mark.stress
@pytest.mark.parametrize("seed", [1, 2])
def test_workers_that_die_and_freeze_at_random_lose_nothing(
    seed: int, database: Database, start_worker: StartWorker
) -> None:
    """Every job completes once, its body ran at least once, and no row is left in between."""
    chance = random.Random(seed)
    work.enqueue_many([{"label": f"{number:05}", "seconds": 0.002} for number in range(COUNT)])
    workers = [start_worker("--threads", "4") for _ in range(3)]
    frozen: list[Worker] = []
    done_by = time.monotonic() + SECONDS

    while time.monotonic() < done_by and database.count("completed") < COUNT * 0.9:
        time.sleep(chance.uniform(0.2, 1.5))
        victim = chance.choice(workers)
        act = chance.choice(["kill", "freeze", "terminate", "thaw"])
        print(f"{act} {victim.pid}: {database.count('running')} running")
        if act == "thaw":
            for worker in frozen:
                worker.thaw()
            frozen.clear()
        elif act == "freeze" and victim not in frozen:
            victim.send(signal.SIGSTOP)
            frozen.append(victim)
        elif act in ("kill", "terminate") and victim not in frozen:
            victim.send(signal.SIGKILL if act == "kill" else signal.SIGTERM)
            workers.remove(victim)
            workers.append(start_worker("--threads", "4"))
    for worker in frozen:
        worker.thaw()
    eventually(lambda: database.count("completed") == COUNT, within=180, what="all done")

    for worker in workers:
        worker.wait_until_started()
    assert [worker.stop() for worker in workers] == [0] * len(workers)
    assert database.rows("select state, count(*) from x_jobs group by state") == [
        ("completed", COUNT)
    ]
    assert database.value("select count(distinct job_id) from testapp_effect") == COUNT
    assert database.value("select max(attempt) from x_jobs") == 1
    # The lease of a worker that was killed last stands until it expires.
    valid = "select count(*) from x_job_leases where expires_at > x_now()"
    eventually(lambda: database.value(valid) == 0, within=60, what="no valid lease")
    again = database.effects() - COUNT
    lost = database.value("select sum(lost_leases) from x_jobs")
    print(f"{lost} claims lost, {again} bodies ran again")
    assert again <= lost
