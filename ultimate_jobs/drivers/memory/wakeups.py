"""Wake-ups in memory: a queue per subscriber of this process."""

from __future__ import annotations

from collections.abc import Collection
from queue import Empty, SimpleQueue

from ultimate_jobs.errors import DriverUnsupported


class MemoryWakeups:
    """Tells every subscriber at once: in memory nothing is uncommitted."""

    def __init__(self) -> None:
        # Replaced as a whole, so that announcing needs no lock.
        self._open: tuple[MemorySubscription, ...] = ()

    def announce(self, queues: Collection[str]) -> None:
        for one in self._open:
            one.heard.put(frozenset(queues))

    def subscription(self, address: str | None) -> MemorySubscription:
        if address is not None:
            raise DriverUnsupported(driver="memory", feature="an address to listen at")
        return MemorySubscription(self)

    def add(self, one: MemorySubscription) -> None:
        """Tell this one from now on."""
        self._open = (*self._open, one)

    def remove(self, one: MemorySubscription) -> None:
        """Tell this one no more."""
        self._open = tuple(other for other in self._open if other is not one)


class MemorySubscription:
    """What one listener has been told and has not yet taken."""

    is_pooled = False

    def __init__(self, wakeups: MemoryWakeups) -> None:
        self.heard: SimpleQueue[frozenset[str]] = SimpleQueue()
        self._wakeups = wakeups

    def open(self) -> None:
        """Nothing to connect to."""

    def listen(self) -> None:
        self._wakeups.add(self)

    def wait(self, seconds: float) -> frozenset[str]:
        try:
            queues = self.heard.get(timeout=seconds)
            while not self.heard.empty():
                queues |= self.heard.get_nowait()
        except Empty:
            return frozenset()
        return queues

    def close(self) -> None:
        self._wakeups.remove(self)
