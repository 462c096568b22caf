"""Hears of new work over a connection of its own; deaf or not, the fetcher polls."""

from __future__ import annotations

from collections.abc import Callable

from ultimate_jobs.drivers.base import Subscription
from ultimate_jobs.events import emit
from ultimate_jobs.processes.loops import PASSING, Loop

# Seconds: how long a step waits at most, which is how long a stop may wait for it.
PATIENCE = 0.2
# After a word the next ones are gathered for so long, and then there is a second look: a process
# that enqueues again soon after it told of a queue says nothing (QUIET in the driver is less).
SETTLE = 0.015
# Between two tries to find another way than through a pooler.
LONG = 60.0
LONGEST_WAIT = 30.0


class Listener:
    """A loop that calls ``on_work`` when a queue that is served here has new work.

    Args:
        queues: the queues that are served; ``None`` serves every one.
        may_be_pooled: listen through a pooler too; whoever gave the address knows it.
    """

    def __init__(
        self,
        subscription: Subscription,
        *,
        queues: tuple[str, ...] | None,
        may_be_pooled: bool,
        on_work: Callable[[], None],
        on_bug: Callable[[], None],
    ) -> None:
        self.loop = Loop(
            "listener", self.step, alias=None, on_bug=on_bug, longest_wait=LONGEST_WAIT
        )
        self._subscription = subscription
        self._queues = None if queues is None else frozenset(queues)
        self._may_be_pooled = may_be_pooled
        self._on_work = on_work
        self._hears: bool | None = None
        self._looks_again = False

    def step(self) -> float:
        """Wait for a word, and pass it on; connect first where there is no connection."""
        try:
            if not self._hears and not self._connect():
                return LONG
            return self._hear()
        except PASSING as error:
            self._close(reason=type(error).__name__)
            raise

    def close(self) -> None:
        """Give the connection back, after the loop has ended."""
        self._subscription.close()

    def _connect(self) -> bool:
        self._subscription.open()
        if self._subscription.is_pooled and not self._may_be_pooled:
            # It would listen on a session that the pooler lends to others, and hear nothing.
            self._close(reason="the database is reached through a pooler")
            return False
        self._subscription.listen()
        self._hears = True
        emit("jobs.worker.listening")
        # What was announced before this moment was said to nobody.
        self._on_work()
        return True

    def _hear(self) -> float:
        if self._looks_again:
            self._looks_again = False
            self._on_work()
        heard = self._subscription.wait(PATIENCE)
        if not heard or not self._serves(heard):
            return 0.0
        self._on_work()
        self._looks_again = True
        return SETTLE

    def _serves(self, queues: frozenset[str]) -> bool:
        return self._queues is None or not self._queues.isdisjoint(queues)

    def _close(self, *, reason: str) -> None:
        self._subscription.close()
        if self._hears is not False:
            self._hears = False
            emit("jobs.worker.deaf", reason=reason)
