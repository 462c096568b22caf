"""The lease of this worker process: one incarnation after another, each under a fresh UUID."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from uuid import UUID

from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.events import emit
from ultimate_jobs.types import WorkerCard


class Lease:
    """One incarnation, judged by this process's own monotonic clock.

    It counts from before the statement that renewed it, so that it ends here no later than in
    the database.
    """

    def __init__(
        self,
        worker: UUID,
        *,
        ttl: float,
        asked_at: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.worker = worker
        self.lost = False
        self._ttl = ttl
        self._asked_at = asked_at
        self._clock = clock

    def now(self) -> float:
        """Return the time by which it is judged, to be taken before asking for a renewal."""
        return self._clock()

    def renewed(self, asked_at: float) -> None:
        """The renewal that was asked for at this time succeeded."""
        self._asked_at = asked_at

    def remaining(self) -> float:
        """Return the seconds until it ends; below 0 it has ended."""
        return self._asked_at + self._ttl - self._clock()

    def stands(self) -> bool:
        return not self.lost and self.remaining() > 0


class LeaseKeeper:
    """Takes, judges and gives back this process's lease.

    Args:
        card: what the process says of itself, under a fresh UUID each time it is called.
        on_lost: called once per lost lease with its worker id; returns how many runs it had.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        card: Callable[[], WorkerCard],
        ttl: float,
        on_lost: Callable[[UUID], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver = driver
        self._card = card
        self._ttl = ttl
        self._on_lost = on_lost
        self._clock = clock
        self._lock = Lock()
        self.current: Lease | None = None

    @property
    def worker(self) -> UUID:
        """The id of the present incarnation."""
        if self.current is None:
            raise RuntimeError("no lease was taken")
        return self.current.worker

    def take(self) -> Lease:
        """Register a new incarnation; the database's errors pass through."""
        lost = self.current
        if lost is not None:
            # A renewal that was under way when we gave up may have come through after all.
            self._driver.leases.release(lost.worker)
        asked_at, card = self._clock(), self._card()
        self._driver.leases.register(card)
        self.current = Lease(card.worker, ttl=self._ttl, asked_at=asked_at, clock=self._clock)
        return self.current

    def stands(self, worker: UUID) -> bool:
        """Whether this worker id is the present incarnation and its lease still stands."""
        lease = self.current
        return lease is not None and lease.worker == worker and lease.stands()

    def lose(self, lease: Lease, *, reason: str) -> None:
        """Stop acting under a lease; from here on its claims are another's."""
        with self._lock:
            if lease.lost:
                return
            lease.lost = True
        runs = self._on_lost(lease.worker)
        emit("jobs.worker.lease_lost", worker=str(lease.worker), reason=reason, runs=runs)

    def release(self) -> None:
        """Give the present lease back; nothing may run under it any more."""
        if self.current is not None:
            self._driver.leases.release(self.current.worker)
