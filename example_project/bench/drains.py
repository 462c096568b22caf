"""Drains: a backlog is there, and one or two processes work it off."""

from __future__ import annotations

import json
import time

from example_project.bench import ceiling, raw_drain
from example_project.bench.arithmetic import per_second
from example_project.bench.children import Child, started
from example_project.bench.cost import bill_of
from example_project.bench.enqueues import load, raw_enqueue
from example_project.bench.jobs import insert, noop
from example_project.bench.rows import Recount, settle
from example_project.bench.server import Counters, counters, query
from example_project.bench.session import CEILING, OURS, Session
from example_project.bench.workers import BenchFailed

# A process adds to the server's counters when its connections end.
FLUSH_SECONDS = 2.0


def drain_noop_1(session: Session) -> None:
    """Drain no-op jobs by one process; the bill of the last round is the cost."""
    for _ in range(session.sizes.rounds):
        bill = _raw_drain(session, "drain_noop_1", session.sizes.noop, processes=1)
        session.cost.update({f"ceiling_{name}": value for name, value in bill.items()})
        session.cost.update(_our_drain(session, "drain_noop_1", session.sizes.noop, processes=1))


def drain_noop_2(session: Session) -> None:
    """Drain no-op jobs by two processes."""
    # Twice, so that both have work for as long as one alone had.
    count = 2 * session.sizes.noop
    for _ in range(session.sizes.rounds):
        _raw_drain(session, "drain_noop_2", count, processes=2)
        _our_drain(session, "drain_noop_2", count, processes=2)


def drain_insert_1(session: Session) -> None:
    """Drain jobs that each insert a row, committed by itself, before they are acknowledged."""
    for _ in range(session.sizes.rounds):
        _raw_drain(session, "drain_insert_1", session.sizes.insert, processes=1, inserts=True)
        _our_drain(session, "drain_insert_1", session.sizes.insert, processes=1, inserts=True)


def small_rate(session: Session) -> float:
    """Return our rate on a small table in this run, measured now where it was not yet."""
    if session.value(OURS, "drain_noop_1") is None:
        drain_noop_1(session)
    rate = session.value(OURS, "drain_noop_1")
    assert rate is not None
    return rate


def _raw_drain(
    session: Session, name: str, count: int, *, processes: int, inserts: bool = False
) -> dict[str, float]:
    query(f"drop table if exists {ceiling.TABLE}")
    with bill_of(ceiling.TABLE, count) as bill:
        raw_enqueue(session, count, by_thousands=True)
        bill.enqueued()
        query(f"analyze {ceiling.TABLE}")
        bill.begins()
        seconds = _raw_seconds(session, count, processes=processes, inserts=inserts)
        bill.drained()
    _refuse_unfinished(f"select count(*) from {ceiling.TABLE} where state = 'completed'", count)
    session.note(CEILING, name, per_second(count, seconds))
    return bill.as_dict()


def _raw_seconds(session: Session, count: int, *, processes: int, inserts: bool) -> float:
    words = ["-m", "example_project.bench.raw_drain", *([raw_drain.INSERTS] if inserts else [])]
    environment = {raw_drain.CONNINFO: session.conninfo}
    with started(processes, words, environment=environment, talks=True) as children:
        for child in children:
            _line(child)
        for child in children:
            child.to.write("go\n")
            child.to.flush()
        told = [json.loads(_line(child)) for child in children]
    if sum(done for _, _, done in told) != count:
        raise BenchFailed(what="the ceiling did not complete as many rows as it was given")
    return max(ends for _, ends, _ in told) - min(begins for begins, _, _ in told)


def _line(child: Child) -> str:
    line = child.of.readline()
    if not line:
        raise BenchFailed(what="a process of the ceiling ended", last_words=child.last_words())
    return line


def _our_drain(
    session: Session, name: str, count: int, *, processes: int, inserts: bool = False
) -> dict[str, float]:
    session.rows.remove()
    with bill_of("x_jobs", count) as bill:
        load(session, count, insert if inserts else noop)
        bill.enqueued()
        settle()
        bill.begins()
        before = counters()
        memory = session.workers.drain(processes, jobs=count)
        bill.drained()
    recount = session.rows.recount()
    session.checks[name] = _check(recount, count, before)
    if inserts:
        _refuse_unfinished("select count(distinct job_id) from bench_insertion", count)
    session.note(OURS, name, _rate(recount, count, processes=processes))
    return {**bill.as_dict(), "worker_memory_bytes": memory}


def _rate(recount: Recount, count: int, *, processes: int) -> float:
    if recount.completed != count:
        raise BenchFailed(what=f"{recount.completed} of {count} jobs were completed")
    if recount.workers != processes:
        raise BenchFailed(what=f"{recount.workers} of {processes} workers found anything to do")
    return per_second(recount.counted, recount.seconds)


def _check(recount: Recount, count: int, before: Counters) -> dict[str, int | bool]:
    """Compare with what the server counted: each job is updated by its claim and by its ack."""
    deadline = time.monotonic() + FLUSH_SECONDS
    while (seen := counters().since(before)).updates < 2 * count and time.monotonic() < deadline:
        time.sleep(0.1)
    return {
        "jobs": count,
        "recounted": recount.completed,
        "together": recount.counted,
        "row_updates": seen.updates,
        "commits": seen.commits,
        "agrees": recount.completed == count and seen.updates >= 2 * count,
    }


def _refuse_unfinished(sql: str, count: int) -> None:
    found = query(sql)[0]
    if found != count:
        raise BenchFailed(what=f"{found} of {count} rows were written")
