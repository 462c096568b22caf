"""Growth: what a large, wide or busy table does to our own drain rate."""

from __future__ import annotations

from example_project.bench.arithmetic import per_second
from example_project.bench.drains import our_drain, small_rate
from example_project.bench.rows import settle
from example_project.bench.session import OURS, Session
from example_project.bench.workers import BenchFailed

# Shorter, and the first claims weigh more than the rest.
LEAST_SECONDS = 1.5
START_SECONDS = 3.0
# A drain that is slower by more than this is cut off: its rate is known by then.
SLOWEST = 3


def ready_1m(session: Session) -> None:
    """Drain for a while from a backlog that is far from its end."""
    expected = small_rate_beside(session, "ready_1m")
    session.rows.remove()
    session.say(f"  putting {session.sizes.ready:,} ready rows")
    session.rows.fill(session.sizes.ready)
    settle()
    with session.workers.serving() as [worker]:
        worker.wait(max(LEAST_SECONDS, session.sizes.noop / expected))
    _note(session, "ready_1m")


def finished_5m(session: Session) -> None:
    """Drain beside a history."""
    session.say(f"  putting {session.sizes.finished:,} finished rows")
    _drain(session, "finished_5m", finished=session.sizes.finished)


def tenants_1000(session: Session) -> None:
    """Drain what many tenants asked for."""
    _drain(session, "tenants_1000", tenants=session.sizes.tenants)


def queues_200(session: Session) -> None:
    """Drain many queues by a worker that serves them all."""
    _drain(session, "queues_200", queues=session.sizes.queues)


def small_rate_beside(session: Session, name: str) -> float:
    """Return our rate on a small table, which a phase is compared with.

    Measured anew before each phase, for the machine may do other things by then; a quick run
    measures it once.
    """
    once = small_rate(session)
    if session.sizes.rounds == 1:
        session.note(OURS, f"{name}_small", once)
        return once
    our_drain(session, f"{name}_small", session.sizes.noop)
    return session.value(OURS, f"{name}_small") or once


def _drain(
    session: Session, name: str, *, finished: int = 0, tenants: int = 0, queues: int = 1
) -> None:
    expected = small_rate_beside(session, name)
    session.rows.remove()
    if finished:
        session.rows.fill(finished, state="completed")
    session.rows.fill(session.sizes.noop, tenants=tenants, queues=queues)
    settle()
    session.workers.drain_for(START_SECONDS + SLOWEST * session.sizes.noop / expected)
    _note(session, name)


def _note(session: Session, name: str) -> None:
    recount = session.rows.recount()
    if recount.workers != 1 or not recount.seconds:
        raise BenchFailed(what=f"{name}: {recount.completed} jobs were completed")
    session.note(OURS, name, per_second(recount.counted, recount.seconds))
