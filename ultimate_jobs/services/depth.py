"""The bound on a queue's depth: what an enqueue into a full queue meets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from ultimate_jobs import conf
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.errors import QueueFull
from ultimate_jobs.types import EnqueueRequest

# The least wait of a job that found its queue full; the longest is twice as long, so that those
# that came together do not come back together.
FULL_DELAY_MS = 60_000


def admit(driver: Driver, requests: list[EnqueueRequest]) -> list[EnqueueRequest]:
    """Return the requests as they may be written.

    A check and no lock: enqueuers that race each other each see the same room, and may pass the
    bound by what they add. A queue without a bound costs nothing.

    Raises:
        QueueFull: those of one queue do not all fit, and it refuses.
    """
    late = {
        one.id
        for queue, bound in _bounds(requests).items()
        for one in _beyond(driver, [one for one in requests if one.queue == queue], bound)
    }
    return [_later(one) if one.id in late else one for one in requests] if late else requests


def _bounds(requests: Sequence[EnqueueRequest]) -> dict[str, int]:
    """Return the bound of each queue that has one; a middleware may have sent some elsewhere."""
    settings = conf.settings()
    given = {one.queue: settings.queue(one.queue).max_depth for one in requests}
    return {queue: bound for queue, bound in given.items() if bound is not None}


def _beyond(driver: Driver, requests: list[EnqueueRequest], bound: int) -> list[EnqueueRequest]:
    """Return what one queue has no room for and delays."""
    queue = requests[0].queue
    depth = driver.queues.depth(queue, cap=bound)
    room = bound - depth
    if len(requests) <= room:
        return []
    added = _added(driver, requests)
    if len(added) <= room:
        return []
    if conf.settings().queue(queue).when_full == "delay":
        return added[room:]
    raise QueueFull(job=requests[0].name, queue=queue, depth=depth, bound=bound, asked=len(added))


def _added(driver: Driver, requests: Sequence[EnqueueRequest]) -> list[EnqueueRequest]:
    """Return those that would make the queue deeper: due now, each under a key that is free."""
    due = _due(driver, requests)
    if not due:
        return []
    free = [one for one, held in zip(due, driver.queues.held(due), strict=True) if not held]
    return list({(one.tenant or "", one.key): one for one in reversed(free)}.values())[::-1]


def _due(driver: Driver, requests: Sequence[EnqueueRequest]) -> list[EnqueueRequest]:
    """What is scheduled for later is no part of the depth before it is due."""
    now = driver.introspection.now() if any(one.run_after for one in requests) else None
    return [
        one
        for one in requests
        if not one.delay_ms and (one.run_after is None or now is None or one.run_after <= now)
    ]


def _later(request: EnqueueRequest) -> EnqueueRequest:
    spread = random.uniform(1, 2)  # noqa: S311 - spreads load, keeps no secret
    return replace(request, run_after=None, delay_ms=round(FULL_DELAY_MS * spread))
