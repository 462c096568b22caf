"""Enqueue: one a commit, and a thousand a commit."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from example_project.bench import ceiling
from example_project.bench.arithmetic import per_second
from example_project.bench.jobs import noop
from example_project.bench.session import CEILING, OURS, Session
from ultimate_jobs.declare import Job
from ultimate_jobs.ids import new_id

MOST_ATTEMPTS = noop.definition.retry.attempts


def enqueue_one(session: Session) -> None:
    """Insert one row a commit, raw and through ``Job.enqueue``."""
    _enqueue_both(session, "enqueue_one", session.sizes.enqueue_one, _one_a_commit)


def enqueue_many(session: Session) -> None:
    """Insert a thousand rows a commit, raw and through ``Job.enqueue_many``."""
    _enqueue_both(session, "enqueue_many", session.sizes.enqueue_many, load)


def _enqueue_both(
    session: Session, name: str, count: int, ours: Callable[[Session, int], float]
) -> None:
    """Measure ours between two ceilings: what else the machine does weighs on both."""
    by_thousands = ours is load
    for _ in range(session.sizes.rounds):
        before = raw_enqueue(session, count, by_thousands=by_thousands)
        session.rows.remove()
        session.note(OURS, name, per_second(count, ours(session, count)))
        after = raw_enqueue(session, count, by_thousands=by_thousands)
        for seconds in (before, after):
            session.note(CEILING, name, per_second(count, seconds))


def _one_a_commit(session: Session, count: int) -> float:
    numbers, run = session.rows.numbers(count), session.rows.run
    queued = noop.using(queue=session.queue)
    begins = time.perf_counter()
    for number in numbers:
        queued.enqueue(run=run, n=number)
    return time.perf_counter() - begins


def raw_enqueue(session: Session, count: int, *, by_thousands: bool) -> float:
    """Fill a new ceiling table and return the seconds; ids and payloads are made before."""
    rows = [raw_row(session.rows.run, number) for number in range(count)]
    insert = ceiling.insert_by_thousands if by_thousands else ceiling.insert_one_a_commit
    with ceiling.connect(session.conninfo) as connection:
        ceiling.make_table(connection)
        begins = time.perf_counter()
        insert(connection, rows, MOST_ATTEMPTS)
        return time.perf_counter() - begins


def load(session: Session, count: int, job: Job[..., Any] = noop) -> float:
    """Enqueue jobs by thousands, a commit each, and return the seconds."""
    numbers, run = session.rows.numbers(count), session.rows.run
    queued = job.using(queue=session.queue)
    begins = time.perf_counter()
    for start in range(numbers.start, numbers.stop, ceiling.CHUNK):
        chunk = range(start, min(start + ceiling.CHUNK, numbers.stop))
        queued.enqueue_many({"run": run, "n": number} for number in chunk)
    return time.perf_counter() - begins


def raw_row(run: str, number: int) -> ceiling.Row:
    """Return a row with the payload and the kind of ids that ours have."""
    return new_id(), new_id(), f"{run}:{number}", json.dumps({"run": run, "n": number})
