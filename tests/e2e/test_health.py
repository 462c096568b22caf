"""/livez and /readyz of real processes: what a platform sees while things go wrong."""

from __future__ import annotations

import http.client
import json
import os
import signal
from typing import Any

from tests.app.jobs import gated
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import Database, Worker, eventually, fact

ANYWHERE = ("--health", "127.0.0.1:0")


def port_of(worker: Worker) -> int:
    [line] = eventually(lambda: worker.log_lines("jobs.health.listening"), within=60)
    return int(fact(line, "port"))


def ask(port: int, path: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def probes(port: int) -> tuple[int, int]:
    return ask(port, "/livez")[0], ask(port, "/readyz")[0]


def test_worker_is_ready_at_work_and_not_while_it_stops(
    database: Database, start_worker: StartWorker
) -> None:
    """It lives as long as it lets bodies finish."""
    gated.enqueue(label="long", gate="gate")
    worker = start_worker("--grace", "60", *ANYWHERE)
    port = port_of(worker)
    eventually(lambda: probes(port) == (200, 200), what="a ready worker")
    eventually(lambda: database.effects() == 1, what="a running body")
    running = ask(port, "/readyz")[1]["running"]

    worker.send(signal.SIGTERM)
    eventually(lambda: probes(port) == (200, 503), what="a stopping worker")
    why = ask(port, "/readyz")[1]["why"]
    database.open("gate")

    assert worker.wait() == 0
    assert running == 1
    assert "it stops" in why


def test_worker_without_its_database_lives_and_is_not_ready(
    database: Database, start_worker: StartWorker
) -> None:
    """Restarting it would mend nothing; it is ready again by itself."""
    worker = start_worker(*ANYWHERE)
    port = port_of(worker)
    eventually(lambda: probes(port) == (200, 200), what="a ready worker")
    name = database.value("select current_database()")
    elsewhere = Database(database.url.replace(f"/{name}?", "/postgres?"))
    try:
        elsewhere.rows(f'alter database "{name}" allow_connections false')
        elsewhere.rows(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", name
        )
        eventually(lambda: probes(port) == (200, 503), what="a worker without a database")
        why = ask(port, "/readyz")[1]["why"]
    finally:
        elsewhere.rows(f'alter database "{name}" allow_connections true')
        elsewhere.close()

    eventually(lambda: probes(port) == (200, 200), what="a worker that is back")
    assert why
    assert worker.stop() == 0


def test_supervisor_answers_for_all_its_processes(
    database: Database, start_worker: StartWorker
) -> None:
    """Ready with each of them, and not while one is missing."""
    supervisor = start_worker("--processes", "2", "--threads", "1", *ANYWHERE)
    port = port_of(supervisor)
    eventually(lambda: probes(port) == (200, 200), within=60, what="two ready processes")
    pids = [one["pid"] for one in ask(port, "/readyz")[1]["processes"]]

    os.kill(pids[0], signal.SIGKILL)
    eventually(lambda: probes(port) == (200, 503), what="a missing process")
    eventually(lambda: probes(port) == (200, 200), within=60, what="its replacement")

    assert len(set(pids)) == 2
    assert supervisor.stop(within=60) == 0


def test_address_in_use_is_refused(database: Database, start_worker: StartWorker) -> None:
    """In words, before anything is claimed."""
    first = start_worker(*ANYWHERE)
    port = port_of(first)

    second = start_worker("--health", f"127.0.0.1:{port}")

    assert second.wait() == 1
    assert "X_ARGUMENT_INVALID" in second.log
    assert "Traceback" not in second.log
    assert first.stop() == 0
