"""Behind PgBouncer in transaction mode: every job is done, whatever happens to its connections."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.jobs import work
from tests.concurrency.sessions import fetch
from tests.e2e.conftest import StartWorker
from tests.e2e.pooler import PROGRAM, Pooler
from tests.e2e.processes import ROOT, Database, Worker, environment, eventually

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="PgBouncer is not installed")

SCRIPT = "tests/e2e/behind_pooler.py"
ENQUEUE = "from tests.app.jobs import work; work.enqueue(label='through')"
RARELY = {"POLL": 30, "LEASE_TTL": 30, "HEARTBEAT": 5}
# Every session of the test database but this process's own and those that listen.
SERVERS = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and backend_type = 'client backend'
        and pid <> pg_backend_pid() and pid <> %s and query not ilike 'listen %%'
"""


@pytest.fixture
def pooler(database: Database, tmp_path: Path) -> Iterator[Pooler]:
    folder = tmp_path / "pgbouncer"
    folder.mkdir()
    running = Pooler(database.url, folder)
    yield running
    running.end()


@pytest.fixture
def start_behind(pooler: Pooler, tmp_path: Path) -> Iterator[StartWorker]:
    """Start workers that reach their database through the pooler only."""
    workers: list[Worker] = []

    def start(*arguments: str, settings: dict[str, Any]) -> Worker:
        log = tmp_path / f"worker-{len(workers)}.log"
        through = Database(pooler.url)
        workers.append(Worker(through, log, *arguments, settings=settings, script=SCRIPT))
        return workers[-1]

    yield start
    for worker in workers:
        worker.end()


def test_worker_behind_a_pooler_listens_at_its_own_address(
    database: Database, start_behind: StartWorker
) -> None:
    """The direct address of ``LISTEN`` wakes it at once."""
    worker = start_behind("--threads", "4", settings={**RARELY, "LISTEN": database.url})
    worker.wait_until_started()
    eventually(lambda: worker.log_lines("jobs.worker.listening"), what="a listening worker")

    for number in range(3):
        work.enqueue(label=f"{number}")
        eventually(lambda number=number: database.count("completed") == number + 1)

    assert worker.stop() == 0
    assert not worker.log_lines("jobs.worker.deaf")


def test_worker_behind_a_pooler_without_an_address_polls(
    database: Database, start_behind: StartWorker
) -> None:
    """It notices the pooler, says that it is deaf, and every job runs."""
    worker = start_behind("--threads", "4", settings={"LISTEN": True})
    worker.wait_until_started()
    work.enqueue_many([{"label": f"{number:03}"} for number in range(50)])

    eventually(lambda: database.effects() == 50, within=60, what="all jobs")
    eventually(lambda: database.count("completed") == 50, within=60)

    [deaf] = worker.log_lines("jobs.worker.deaf")
    assert "pooler" in deaf
    assert worker.stop() == 0


def test_dropped_server_connections_lose_nothing(
    database: Database, pooler: Pooler, start_behind: StartWorker
) -> None:
    """The pooler reconnects, the server kills its sessions, both under load: 0 jobs lost."""
    count = 1500
    work.enqueue_many([{"label": f"{number:04}", "seconds": 0.005} for number in range(count)])
    workers = [start_behind("--threads", "4", settings={"LISTEN": database.url}) for _ in range(2)]
    [[mine]] = fetch("select pg_backend_pid()")
    dropped = []
    for share in range(1, 7):
        eventually(
            lambda share=share: database.count("completed") >= share * count // 10,
            within=90,
            what=f"share {share}",
        )
        if share % 2:
            dropped.append(sum(ended for (ended,) in database.rows(SERVERS, mine)))
        else:
            pooler.admin("reconnect")
            name = database.value("select current_database()")
            pooler.admin(f'kill "{name}"')
            pooler.admin(f'resume "{name}"')

    eventually(lambda: database.count("completed") == count, within=120, what="all jobs")

    print(f"sessions ended: {dropped}; {database.count('completed')} of {count} completed")
    assert min(dropped) > 0
    assert database.value("select count(distinct label) from testapp_effect") == count
    assert database.value("select count(*) from x_jobs where state <> 'completed'") == 0
    for worker in workers:
        assert worker.stop(within=30) == 0, worker.log


def test_enqueue_through_a_pooler_wakes_a_worker(
    database: Database, pooler: Pooler, start_behind: StartWorker
) -> None:
    """NOTIFY is a transaction like any other, so the enqueuer needs no address of its own."""
    worker = start_behind(settings={**RARELY, "LISTEN": database.url})
    worker.wait_until_started()
    eventually(lambda: worker.log_lines("jobs.worker.listening"), what="a listening worker")

    subprocess.run(
        [sys.executable, SCRIPT, "shell", "-c", ENQUEUE],
        cwd=ROOT,
        env=environment(pooler.url),
        check=True,
        timeout=60,
        capture_output=True,
    )

    eventually(lambda: database.count("completed") == 1, what="the job")
    assert worker.stop() == 0
