"""Limits over real processes, measured from what their bodies left in a table."""

from __future__ import annotations

import json
import random
import signal
import time

import pytest

from tests.app.jobs import four_at_once, in_lane, one_of_ten
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import Database, eventually, manage

# At each body's start, how many bodies were between their start and their end.
MOST_AT_ONCE = """
    with body as materialized (
        select (result ->> 0)::float8 as began, (result ->> 1)::float8 as ended from x_jobs
        where state = 'completed')
    select max((
        select count(*) from body other
        where other.began <= this.began and other.ended > this.began))
    from body this"""
USED = """
    select sum(ended - began) / (4 * (max(ended) - min(began)))
    from (
        select (result ->> 0)::float8 as began, (result ->> 1)::float8 as ended from x_jobs
    ) body"""
VALID_SLOTS = "select count(*) from x_job_leases where kind = 'slot' and expires_at > x_now()"
DEPTH = """
    select count(*) filter (where state <> 'running' and due_at <= x_now()),
        count(*) filter (where state = 'running'),
        extract(epoch from x_now() - min(due_at) filter (where state <> 'running'))
    from x_jobs where state in ('ready', 'delayed', 'running', 'suspended')"""
SHORT = {"POLL": 0.05}


@pytest.mark.parametrize("avoids", [True, False], ids=["avoids", "sheds"])
def test_depth_of_a_saturated_queue_never_goes_quiet(
    avoids: bool, database: Database, start_worker: StartWorker
) -> None:
    """Twenty jobs and one slot: 19 wait and 1 runs at every sample, and the age grows."""
    one_of_ten.enqueue_many([{"label": str(n), "seconds": 30.0} for n in range(20)])
    for _ in range(2):
        start_worker("--grace", "0.1", settings={**SHORT, "CLAIM_AVOIDANCE": avoids})
    eventually(lambda: database.count("running") == 1, what="the first one")

    ages: list[float] = []
    until = time.monotonic() + 4
    while time.monotonic() < until:
        depth, running, age = database.rows(DEPTH)[0]
        assert (depth, running) == (19, 1)
        ages.append(float(age))

    assert len(ages) > 100
    assert ages == sorted(ages)
    assert ages[-1] - ages[0] > 3
    assert database.value(VALID_SLOTS) == 2
    [stats] = json.loads(manage(database.url, "jobs", "stats", "--json"))["queues"]
    assert (stats["depth"], stats["running"]) == (19, 1)
    assert stats["oldest_ready_seconds"] > ages[-1]


def test_limit_is_kept_and_used_over_two_processes(
    database: Database, start_worker: StartWorker
) -> None:
    """Never five of four at once, and at least nine tenths of what four could do."""
    four_at_once.enqueue_many([{"label": str(n), "seconds": 0.5} for n in range(60)])
    for _ in range(2):
        start_worker("--threads", "4", settings=SHORT)

    eventually(lambda: database.count("completed") == 60, within=60, what="all done")

    used = float(database.value(USED))
    print(f"{used:.1%} of four slots used")
    assert database.value(MOST_AT_ONCE) == 4
    assert used >= 0.9
    eventually(lambda: database.value(VALID_SLOTS) == 0, what="no slot left taken")


def test_lanes_keep_their_order_over_two_processes(
    database: Database, start_worker: StartWorker
) -> None:
    """Of one account each job starts after the one before has ended; accounts run beside."""
    for number in range(30):
        for account in range(3):
            in_lane.enqueue(label=f"{account}:{number:02}", account=account, seconds=0.01)
    for _ in range(2):
        start_worker("--threads", "4", settings=SHORT)

    eventually(lambda: database.count("completed") == 90, within=60, what="all done")

    out_of_order = database.value(
        """select count(*) from testapp_effect a join testapp_effect b
            on split_part(a.label, ':', 1) = split_part(b.label, ':', 1) and a.label < b.label
        where b.started_at < a.finished_at"""
    )
    assert out_of_order == 0


@pytest.mark.stress
def test_limit_is_kept_while_workers_die(database: Database, start_worker: StartWorker) -> None:
    """Killed every second: valid slots never above the limit, and every job done."""
    chance = random.Random(7)
    four_at_once.enqueue_many([{"label": str(n), "seconds": 0.05} for n in range(400)])
    workers = [start_worker("--threads", "4", settings=SHORT) for _ in range(3)]
    kills = 0
    next_kill = time.monotonic() + 1
    until = time.monotonic() + 120
    while database.count("completed") < 400:
        assert time.monotonic() < until, "not in time"
        assert database.value(VALID_SLOTS) <= 4
        if time.monotonic() > next_kill and kills < 8:
            victim = chance.choice(workers)
            workers.remove(victim)
            victim.send(signal.SIGKILL)
            workers.append(start_worker("--threads", "4", settings=SHORT))
            kills += 1
            next_kill = time.monotonic() + 1
        time.sleep(0.005)

    assert kills > 3
    assert database.value(MOST_AT_ONCE) <= 4
