"""Drains: a backlog is there, and one or two processes work it off."""

from __future__ import annotations

import json
import time

from django.db import transaction

from example_project.bench import ceiling, raw_drain
from example_project.bench.arithmetic import per_second
from example_project.bench.children import Child, started
from example_project.bench.cost import bill_of
from example_project.bench.enqueues import load, raw_enqueue
from example_project.bench.jobs import insert, noop
from example_project.bench.rows import Recount, settle
from example_project.bench.server import Counters, counters, query
from example_project.bench.session import CEILING, OURS, Session
from example_project.bench.workers import LEAST_RATE, BenchFailed, wait_while

# A process adds to the server's counters when its connections end.
FLUSH_SECONDS = 2.0
PATIENCE_SECONDS = 60.0

LIVE = """
select exists (select from x_jobs where state = 'ready' and queue = %s)
    or exists (select from x_jobs where state = 'running')
"""


def drain_noop_1(session: Session) -> None:
    """Drain no-op jobs by one process; the bill of the last round is the cost."""
    _drain_both(session, "drain_noop_1", session.sizes.noop)


def drain_noop_2(session: Session) -> None:
    """Drain no-op jobs by two processes."""
    # Twice, so that both have work for as long as one alone had.
    _drain_both(session, "drain_noop_2", 2 * session.sizes.noop, processes=2)


def drain_insert_1(session: Session) -> None:
    """Drain jobs that each insert a row, committed by itself, before they are acknowledged."""
    _drain_both(session, "drain_insert_1", session.sizes.insert, inserts=True)


def _drain_both(
    session: Session, name: str, count: int, *, processes: int = 1, inserts: bool = False
) -> None:
    """Measure ours between two ceilings: what else the machine does weighs on both."""
    for _ in range(session.sizes.rounds):
        _raw_drain(session, name, count, processes=processes, inserts=inserts)
        our_bill = our_drain(session, name, count, processes=processes, inserts=inserts)
        raw_bill = _raw_drain(session, name, count, processes=processes, inserts=inserts)
        if name == "drain_noop_1":
            session.cost.update(our_bill)
            session.cost.update({f"ceiling_{figure}": cost for figure, cost in raw_bill.items()})


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
    return float(max(ends for _, ends, _ in told) - min(begins for begins, _, _ in told))


def _line(child: Child) -> str:
    line = child.of.readline()
    if not line:
        raise BenchFailed(what="a process of the ceiling ended", last_words=child.last_words())
    return line


def our_drain(
    session: Session, name: str, count: int, *, processes: int = 1, inserts: bool = False
) -> dict[str, float]:
    """Drain ours, keep its rate under a name, and return its bill."""
    session.rows.remove()
    with bill_of("x_jobs", count) as bill:
        before = counters()
        if processes == 1:
            load(session, count, insert if inserts else noop)
            bill.enqueued()
            settle()
            before = counters()
            bill.begins()
            memory = session.workers.drain(jobs=count)
        else:
            memory = _drain_at_once(session, count, processes)
        bill.drained()
    recount = session.rows.recount()
    session.checks[name] = _check(recount, count, before)
    if inserts:
        _refuse_unfinished("select count(distinct job_id) from bench_insertion", count)
    _refuse_uncompleted(recount, count)
    if recount.workers == processes:
        session.note(OURS, name, per_second(recount.counted, recount.seconds))
    else:
        session.say(f"  {name}: a worker came too late for any of {count:,} jobs; no figure")
    return {**bill.as_dict(), "worker_memory_bytes": memory}


def _drain_at_once(session: Session, count: int, processes: int) -> int:
    """Show a backlog to several workers in one moment, when all of them wait for it.

    Otherwise the first one to start has half of it done before the second is there.
    """
    with session.workers.serving(processes) as children:
        with transaction.atomic():
            load(session, count)
            settle()
        seconds = PATIENCE_SECONDS + count / LEAST_RATE
        for child in children:
            wait_while(child, lambda: bool(query(LIVE, [session.queue])[0]), seconds=seconds)
        return max(child.peak_bytes for child in children)


def _refuse_uncompleted(recount: Recount, count: int) -> None:
    if recount.completed != count:
        raise BenchFailed(what=f"{recount.completed} of {count} jobs were completed")


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
