"""The verbs of a queue: pause and resume."""

from __future__ import annotations

from ultimate_jobs.drivers import current_driver
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.events import emit
from ultimate_jobs.identity import check_text
from ultimate_jobs.records import QueueState
from ultimate_jobs.registry import declared_jobs
from ultimate_jobs.services import wakeups


def pause_queue(queue: str, *, by: str = "app") -> QueueState:
    """Keep the jobs of a queue from being claimed, in every worker, until it is resumed.

    Enqueues are taken as before, and what runs goes on. Inside a transaction the pause begins when
    that commits. A queue that is paused already stays as it is.

    Args:
        by: who asks, for the next one who wonders.

    Raises:
        JobKeyInvalid: no queue can be called so.
    """
    return pause(current_driver(), queue, by=by)


def resume_queue(queue: str, *, by: str = "app") -> QueueState:
    """Let the jobs of a paused queue be claimed again.

    Args:
        by: who asks, for the log.

    Raises:
        JobKeyInvalid: no queue can be called so.
    """
    return resume(current_driver(), queue, by=by)


def pause(driver: Driver, queue: str, *, by: str) -> QueueState:
    """Pause a queue of this driver, as ``pause_queue``."""
    state = driver.queues.pause(_name(queue), by=by)
    if state.changed:
        emit("jobs.queue.paused", queue=queue, by=by)
    return state


def resume(driver: Driver, queue: str, *, by: str) -> QueueState:
    """Resume a queue of this driver, as ``resume_queue``."""
    state = driver.queues.resume(_name(queue))
    if state.changed:
        emit("jobs.queue.resumed", queue=queue, by=by)
        wakeups.announce(driver, {queue})
    return state


def is_known(driver: Driver, queue: str) -> bool:
    """Say whether a declared job names this queue, or a job waits in it."""
    is_declared = any(job.queue == queue for job in declared_jobs())
    return is_declared or driver.queues.depth(queue, cap=1) > 0


def _name(queue: str) -> str:
    return check_text(None, "queue", queue)
