"""How one thread, or a signal handler, ends another thread's pause."""

from __future__ import annotations

from queue import Empty, SimpleQueue


class Wake:
    """A pause that ends early when someone calls.

    Not an ``Event``: a signal handler that sets one while its own thread waits for it may
    deadlock. ``SimpleQueue`` is the one primitive whose ``put`` is reentrant.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[None] = SimpleQueue()

    def call(self) -> None:
        """End the present pause, or the next one if none is on."""
        if self._calls.empty():
            self._calls.put(None)

    def pause(self, seconds: float) -> bool:
        """Wait this long or until called; say whether called."""
        try:
            self._calls.get(timeout=max(0.0, seconds))
        except Empty:
            return False
        return True
