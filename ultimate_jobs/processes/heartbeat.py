"""Renews the lease from a thread and connection of its own, and brings back who was cancelled."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from uuid import UUID

from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.processes.leases import LeaseKeeper
from ultimate_jobs.processes.loops import Loop

LONGEST_WAIT = 1.0


class Heartbeat:
    """Two loops: one renews, and one that needs no database judges whether that succeeded.

    A renewal that hangs in a dead network answers nothing, so the second must not wait for it.

    Args:
        on_cancel: takes the ids of jobs that were asked to stop.
    """

    def __init__(
        self,
        driver: Driver,
        keeper: LeaseKeeper,
        *,
        interval: float,
        on_cancel: Callable[[AbstractSet[UUID]], None],
        on_bug: Callable[[], None],
    ) -> None:
        self.loop = Loop(
            "heartbeat",
            self.beat,
            alias=driver.alias,
            on_bug=on_bug,
            longest_wait=min(LONGEST_WAIT, interval),
        )
        self.watch_loop = Loop("lease watch", self.watch, alias=None, on_bug=on_bug)
        self._driver = driver
        self._keeper = keeper
        self._interval = interval
        self._on_cancel = on_cancel

    def beat(self) -> float:
        """Renew once, or take a new lease where the last one was lost."""
        lease = self._keeper.current
        if lease is None or lease.lost:
            self._keeper.take()
            return self._interval
        asked_at = lease.now()
        answer = self._driver.heartbeat(lease.worker)
        if not answer.alive:
            self._keeper.lose(lease, reason="expired")
            return 0.0
        lease.renewed(asked_at)
        self._on_cancel(answer.cancel_requested)
        return asked_at + self._interval - lease.now()

    def watch(self) -> float:
        """Give a lease up that was not renewed in time, whether or not the database answers."""
        lease = self._keeper.current
        if lease is None or lease.lost:
            return self._interval
        remaining = lease.remaining()
        if remaining <= 0:
            self._keeper.lose(lease, reason="not renewed in time")
            self.loop.wake.call()
            return self._interval
        return remaining
