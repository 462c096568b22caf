"""Growth: what a large, wide or busy table does to our own drain rate."""

from __future__ import annotations

from example_project.bench.arithmetic import per_second
from example_project.bench.drains import small_rate
from example_project.bench.rows import settle
from example_project.bench.session import OURS, Session
from example_project.bench.workers import BenchFailed

# Shorter, and the first claims weigh more than the rest.
LEAST_SECONDS = 2.0


def ready_1m(session: Session) -> None:
    """Drain for a while from a backlog that is far from its end."""
    expected = small_rate(session)
    session.rows.remove()
    session.say(f"  putting {session.sizes.ready:,} ready rows")
    session.rows.fill(session.sizes.ready)
    settle()
    with session.workers.serving() as worker:
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


def _drain(
    session: Session, name: str, *, finished: int = 0, tenants: int = 0, queues: int = 1
) -> None:
    small_rate(session)
    session.rows.remove()
    if finished:
        session.rows.fill(finished, state="completed")
    session.rows.fill(session.sizes.noop, tenants=tenants, queues=queues)
    settle()
    session.workers.drain(1, jobs=session.sizes.noop)
    _note(session, name, expected=session.sizes.noop)


def _note(session: Session, name: str, *, expected: int | None = None) -> None:
    recount = session.rows.recount()
    if recount.workers != 1 or recount.completed != (expected or recount.completed):
        raise BenchFailed(what=f"{name}: {recount.completed} of {expected} jobs were completed")
    session.note(OURS, name, per_second(recount.counted, recount.seconds))
