"""Churn: jobs come as fast as they go, with and without a snapshot that keeps dead rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from example_project.bench import ceiling
from example_project.bench.arithmetic import per_second, smallest_over_mean, whole_windows
from example_project.bench.children import Child
from example_project.bench.growth import small_rate_beside
from example_project.bench.rows import settle
from example_project.bench.server import query
from example_project.bench.session import OURS, Session
from example_project.bench.workers import LEAST_RATE, BenchFailed, wait_while

BATCH = 1_000
PATIENCE_SECONDS = 60.0
PROBE_SECONDS = 0.005
# By primary key: a look that walked the queue would itself clean the index entries before it.
IS_READY = "select exists (select from x_jobs where id = %s and state = 'ready')"
IS_LIVE = "select exists (select from x_jobs where id = %s and state in ('ready', 'running'))"


def churn_300k(session: Session) -> None:
    """Keep a backlog level while jobs come and go."""
    small_rate_beside(session, "churn_300k")
    session.rows.remove()
    _churn(session, "churn_300k")


def held_snapshot(session: Session) -> None:
    """The same, while a transaction elsewhere still sees everything as it was at the start."""
    small_rate_beside(session, "held_snapshot")
    session.rows.remove()
    with _snapshot(session.conninfo):
        _churn(session, "held_snapshot")


@contextmanager
def _snapshot(conninfo: str) -> Iterator[None]:
    with ceiling.connect(conninfo) as connection:
        connection.execute("begin isolation level repeatable read, read only")
        # The snapshot is taken by the first statement.
        connection.execute("select pg_current_snapshot()")
        yield
        connection.execute("rollback")


def _churn(session: Session, name: str) -> None:
    total, backlog = session.sizes.churn, session.sizes.backlog
    put = session.rows.fill(min(backlog, total))
    first, last = put.start, put.stop - 1
    settle()
    with session.workers.serving() as [worker]:
        while (put_so_far := last - first + 1) < total:
            _wait_until_started(session, worker, last - backlog + 1)
            last = session.rows.fill(min(BATCH, total - put_so_far)).stop - 1
        seconds = PATIENCE_SECONDS + backlog / LEAST_RATE
        final = session.rows.id_of(last)
        wait_while(worker, lambda: bool(query(IS_LIVE, [final])[0]), seconds=seconds)
    _note(session, name, total)


def _wait_until_started(session: Session, worker: Child, number: int) -> None:
    """Wait until a job has been claimed, so that no more than the backlog waits behind it."""
    id_ = session.rows.id_of(number)
    wait_while(
        worker,
        lambda: bool(query(IS_READY, [id_])[0]),
        seconds=PATIENCE_SECONDS,
        every=PROBE_SECONDS,
    )


def _note(session: Session, name: str, total: int) -> None:
    recount, window = session.rows.recount(), session.sizes.window_seconds
    if recount.workers != 1 or recount.completed != total:
        raise BenchFailed(what=f"{name}: {recount.completed} of {total} jobs were completed")
    session.note(OURS, name, per_second(recount.counted, recount.seconds))
    windows = whole_windows(session.rows.windows(window), recount.seconds, window)
    smallest = smallest_over_mean(windows)
    if smallest is not None:
        session.note(OURS, f"{name}_smallest_window", smallest)
