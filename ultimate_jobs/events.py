"""Every event name and what it tells; one ``emit``, to which logs and metrics subscribe."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("ultimate_jobs")

Subscriber = Callable[[str, dict[str, Any]], None]

# name -> (logging level, what happened). Facts never hold a payload, a key or an error's text.
EVENTS: dict[str, tuple[int, str]] = {
    "jobs.worker.started": (logging.INFO, "a worker took its lease and begins to claim"),
    "jobs.worker.stopping": (logging.INFO, "a worker stops claiming"),
    "jobs.worker.stopped": (logging.INFO, "a worker gave its lease back"),
    "jobs.worker.handed_back": (logging.INFO, "unstarted or unfinished jobs went back, uncounted"),
    "jobs.worker.shed": (logging.INFO, "a claimed job was put back because a limit is full"),
    "jobs.worker.lease_lost": (logging.ERROR, "a worker's lease ended before it was renewed"),
    "jobs.worker.listening": (logging.INFO, "a worker hears of new work at once"),
    "jobs.worker.deaf": (logging.WARNING, "a worker finds new work by polling only"),
    "jobs.worker.database_error": (logging.WARNING, "a statement failed and will be tried again"),
    "jobs.supervisor.started": (logging.INFO, "a supervisor starts its worker processes"),
    "jobs.supervisor.child_started": (logging.INFO, "a supervisor started a worker process"),
    "jobs.supervisor.child_ended": (logging.WARNING, "a worker process ended unasked"),
    "jobs.supervisor.child_failing": (logging.ERROR, "a worker process dies soon after each start"),
    "jobs.supervisor.child_stuck": (logging.ERROR, "a worker process stands still and is killed"),
    "jobs.supervisor.stopping": (logging.INFO, "a supervisor ends its worker processes"),
    "jobs.supervisor.stopped": (logging.INFO, "a supervisor's worker processes have ended"),
    "jobs.health.listening": (logging.INFO, "a process answers /livez and /readyz"),
    "jobs.attempt.failed": (logging.WARNING, "an attempt failed and the job will be retried"),
    "jobs.attempt.dead": (logging.ERROR, "a job used up its attempts"),
    "jobs.attempt.cancelled": (logging.INFO, "a running job stopped because it was cancelled"),
    "jobs.attempt.discarded": (logging.INFO, "an attempt ended by an error of discard_on"),
    "jobs.attempt.deferred": (logging.INFO, "a body asked to be run again later"),
    "jobs.attempt.stuck": (logging.ERROR, "a body outlived its timeout; its process ends"),
    "jobs.claim.lost": (logging.ERROR, "a late write was refused: the claim is another's now"),
    "jobs.queue.paused": (logging.WARNING, "someone paused a queue: its jobs are not claimed"),
    "jobs.queue.resumed": (logging.INFO, "someone let a paused queue go on"),
    "jobs.pruned": (logging.INFO, "jobs that ended long ago were removed with their history"),
    "jobs.rescued": (logging.WARNING, "jobs of an expired worker went back to the queue"),
}

_subscribers: list[Subscriber] = []


def subscribe(subscriber: Subscriber) -> None:
    """Call ``subscriber(name, facts)`` at each event, in the thread that emits it."""
    if subscriber not in _subscribers:
        _subscribers.append(subscriber)


def unsubscribe(subscriber: Subscriber) -> None:
    """Stop calling a subscriber."""
    if subscriber in _subscribers:
        _subscribers.remove(subscriber)


def emit(name: str, /, **facts: Any) -> None:
    """Tell every subscriber; one that raises is logged and stops no other.

    Raises:
        KeyError: the event is not declared in ``EVENTS``.
    """
    if name not in EVENTS:
        raise KeyError(name)
    for subscriber in tuple(_subscribers):
        try:
            subscriber(name, facts)
        except Exception:
            logger.exception("an event subscriber failed", extra={"event": name})
