"""Real worker processes, and a database watched from outside by plain SQL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

ROOT = Path(__file__).resolve().parents[2]

# Short leases, so that a lost one is found within a test's patience.
QUICK = {"LEASE_TTL": 1.5, "HEARTBEAT": 0.3, "RESCUE_INTERVAL": 0.2, "POLL": 0.05}


def eventually(condition: Callable[[], Any], *, within: float = 20.0, what: str = "") -> Any:
    """Return the condition's first true answer; fail where none comes in time."""
    deadline = time.monotonic() + within
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within} s: {what or condition}; last: {answer!r}")
        time.sleep(0.01)


class Database:
    """The database under test, asked by SQL over a connection of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection: psycopg.Connection[Any] | None = None

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self.url, autocommit=True)
        cursor = self._connection.execute(query, values)  # type: ignore[call-overload]
        return cursor.fetchall() if cursor.description else []

    def value(self, query: str, *values: Any) -> Any:
        [[value]] = self.rows(query, *values)
        return value

    def count(self, state: str) -> int:
        """Return how many jobs are in a state."""
        return int(self.value("select count(*) from x_jobs where state = %s", state))

    def effects(self, label: str = "%") -> int:
        """Return how many bodies ran, recounted from what they left behind."""
        return int(self.value("select count(*) from testapp_effect where label like %s", label))

    def open(self, gate: str) -> None:
        """Let the bodies that wait at a gate return."""
        self.rows("insert into testapp_document (name, version) values (%s, 1)", gate)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class Worker:
    """One ``manage.py runjobs`` process, its stderr kept in a file."""

    def __init__(
        self,
        database: Database,
        log: Path,
        *arguments: str,
        settings: dict[str, Any] | None = None,
        script: str = "manage.py",
    ) -> None:
        self._log = log
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, script, "runjobs", *arguments],
                cwd=ROOT,
                env=environment(database.url, settings),
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self._log.read_text()

    def wait_until_started(self) -> str:
        """Return the worker's id."""
        line = eventually(lambda: self.log_lines("jobs.worker.started"), what="a started worker")
        return fact(line[0], "worker")

    def log_lines(self, event: str) -> list[str]:
        return [line for line in self.log.splitlines() if f" {event} " in line]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def freeze(self) -> None:
        """Stop it and wait until it stands still."""
        self.send(signal.SIGSTOP)
        eventually(lambda: self._process_state() == "T", what="a stopped process")

    def thaw(self) -> None:
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.wait(10)

    def stop(self, *, within: float = 15.0) -> int:
        """Ask it to stop and return its exit code."""
        self.send(signal.SIGTERM)
        return self.wait(within=within)

    def wait(self, *, within: float = 30.0) -> int:
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the worker still runs after {within} s: {self.log}") from None

    def end(self) -> None:
        """Leave nothing behind, whatever the test did."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _process_state(self) -> str:
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0]


def environment(url: str, settings: dict[str, Any] | None = None) -> dict[str, str]:
    """Return the environment of a process that uses a database with these ULTIMATE_JOBS."""
    return {
        **os.environ,
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "ULTIMATE_JOBS_TEST": json.dumps({**QUICK, **(settings or {})}),
        "PYTHONPATH": str(ROOT),
    }


def manage(url: str, *arguments: str) -> str:
    """Run a management command to its end and return what it printed."""
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment(url),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def fact(line: str, name: str) -> str:
    """Return one fact of a logged event."""
    return line.partition(f" {name}=")[2].split(" ")[0]
