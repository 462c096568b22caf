"""Removes jobs that ended long ago, in one process at a time for the whole site."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from uuid import uuid4

from ultimate_jobs import conf
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.events import emit
from ultimate_jobs.processes import connections
from ultimate_jobs.processes.loops import Loop
from ultimate_jobs.records import Pruned
from ultimate_jobs.services.retention import (
    Frontier,
    Stretch,
    add,
    everything,
    pause_after,
    prune_batch,
)

DUTY = "ultimate_jobs.retention"
# Whoever takes this one walks the whole table. Nobody gives it back, so it is taken once a day.
WALK = "ultimate_jobs.retention.walk"
WALK_EVERY_MS = 86_400_000

INTERVAL = 300.0
# Longer than an interval, so that the duty, and with it the cursors, stay in one process.
DUTY_TTL = 900.0
RENEW_EVERY = DUTY_TTL / 3


class Retention:
    """Takes one batch a step; between two sweeps it keeps neither a lock nor a connection."""

    def __init__(self, driver: Driver, *, on_bug: Callable[[], None]) -> None:
        self.loop = Loop("retention", self.step, alias=driver.alias, on_bug=on_bug)
        self._driver = driver
        self._holder = uuid4()
        self._frontier = Frontier()
        self._ahead: deque[Stretch] = deque()
        self._total = Pruned()
        self._renewed_at = float("-inf")
        self._has_waited = False

    def step(self) -> float:
        """Begin a sweep, or take its next batch; return the seconds to pause."""
        if not self._has_waited:
            # A worker that runs for a minute, as a burst does, has better things to do.
            self._has_waited = True
            return random.uniform(30, 90)  # noqa: S311 - spreads load, keeps no secret
        if not self._keeps_duty():
            self._frontier, self._ahead = Frontier(), deque()
            return self._end()
        if not self._ahead:
            self._ahead.extend(self._plan())
        return self._batch() if self._ahead else self._end()

    def _keeps_duty(self) -> bool:
        if self._ahead and time.monotonic() - self._renewed_at < RENEW_EVERY:
            return True
        self._renewed_at = time.monotonic()
        ttl_ms = round(DUTY_TTL * 1000)
        return self._driver.leases.take_duty(DUTY, self._holder, ttl_ms=ttl_ms)

    def _plan(self) -> list[Stretch]:
        keep, now = conf.settings().retention, self._driver.introspection.now()
        ahead = self._frontier.advance(keep, now)
        if self._driver.leases.take_duty(WALK, uuid4(), ttl_ms=WALK_EVERY_MS):
            ahead += everything(keep, now)
        return ahead

    def _batch(self) -> float:
        began = time.monotonic()
        pruned, rest = prune_batch(self._driver, self._ahead[0])
        self._total = add(self._total, pruned)
        self._ahead.popleft()
        if rest is not None:
            self._ahead.appendleft(rest)
        return pause_after(time.monotonic() - began) if self._ahead else self._end()

    def _end(self) -> float:
        total, self._total = self._total, Pruned()
        if total != Pruned():
            emit(
                "jobs.pruned",
                completed=total.completed,
                cancelled=total.cancelled,
                dead=total.dead,
                events=total.events,
                steps=total.steps,
            )
        connections.close_idle()
        return INTERVAL * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load, keeps no secret
