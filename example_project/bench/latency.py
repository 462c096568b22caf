"""Start latency: an idle worker, one job at a time, from its commit to its body."""

from __future__ import annotations

import random
import threading
import time
from typing import Any
from uuid import UUID, uuid4

import psycopg
from django.db import transaction

from example_project.bench import ceiling
from example_project.bench.arithmetic import percentile
from example_project.bench.enqueues import MOST_ATTEMPTS, raw_row
from example_project.bench.jobs import stamp
from example_project.bench.session import CEILING, OURS, Session
from example_project.bench.workers import BenchFailed
from ultimate_jobs.services.handles import RunHandle

CHANNEL = "bench_wake"
# Long enough to find the worker idle, and never in step with its polls.
PAUSE_SECONDS = (0.02, 0.12)
PATIENCE_SECONDS = 30.0
QUIET_SECONDS = 0.02
PERCENTS = (50, 95, 99)


def start_p50(session: Session) -> None:
    """Measure how long the raw wake-up takes, and how long ours does."""
    _note(session, CEILING, _raw_starts(session))
    session.rows.remove()
    _note(session, OURS, _our_starts(session))


def _note(session: Session, side: str, seconds: list[float]) -> None:
    for percent in PERCENTS:
        session.note(side, f"start_p{percent}", percentile(seconds, percent) * 1000)


def _our_starts(session: Session) -> list[float]:
    with session.workers.serving():
        # The first one makes the threads connect.
        starts = [
            _one_start(session, number) for number in session.rows.numbers(1 + session.sizes.starts)
        ]
    return starts[1:]


def _one_start(session: Session, number: int) -> float:
    time.sleep(random.uniform(*PAUSE_SECONDS))
    handle, committed = _enqueue(session, number)
    # The body tells when it began; to ask at once would take the processor from what is measured.
    time.sleep(QUIET_SECONDS)
    began: float = handle.result(timeout=PATIENCE_SECONDS)
    return began - committed


def _enqueue(session: Session, number: int) -> tuple[RunHandle, float]:
    """Enqueue one, and tell when its commit was answered: before the package's own wake-up."""
    committed: list[float] = []
    with transaction.atomic():
        transaction.on_commit(lambda: committed.append(time.time()))
        handle = stamp.using(queue=session.queue).enqueue(run=session.rows.run, n=number)
    return handle, committed[0]


def _raw_starts(session: Session) -> list[float]:
    with ceiling.connect(session.conninfo) as connection:
        ceiling.make_table(connection)
        with _Listener(session.conninfo) as listener:
            return [
                _one_raw_start(connection, listener, session.rows.run, number)
                for number in range(1 + session.sizes.starts)
            ][1:]


def _one_raw_start(
    connection: psycopg.Connection[Any], listener: _Listener, run: str, number: int
) -> float:
    time.sleep(random.uniform(*PAUSE_SECONDS))
    ceiling.insert_one_a_commit(connection, [raw_row(run, number)], MOST_ATTEMPTS)
    begins = time.time()
    connection.execute(f"notify {CHANNEL}")
    return listener.claimed() - begins


class _Listener:
    """A thread that waits for a notification, claims one row, and tells when that was committed."""

    def __init__(self, conninfo: str) -> None:
        self._connection = ceiling.connect(conninfo)
        self._connection.execute(f"listen {CHANNEL}")
        self._worker: UUID = uuid4()
        self._at = 0.0
        self._done = threading.Event()
        self._ends = False
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> _Listener:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends = True
        self._thread.join(PATIENCE_SECONDS)
        self._connection.close()

    def claimed(self) -> float:
        """Wait for the claim, and return when it was committed."""
        if not self._done.wait(PATIENCE_SECONDS):
            raise BenchFailed(what="the raw wake-up found nothing to claim")
        self._done.clear()
        return self._at

    def _serve(self) -> None:
        while not self._ends:
            # The whole list first: its generator holds the connection's lock.
            woken = list(self._connection.notifies(timeout=0.2, stop_after=1))
            if woken and ceiling.claim(self._connection, self._worker, 1):
                self._at = time.time()
                self._done.set()
