"""What ends an attempt that runs longer than it may: told once, then fenced out.

A body in a thread is told by an exception that is raised there between any two of its
instructions. So that none is ever raised into a thread that has moved on, there is one permit per
attempt: whoever takes it first, the body at its end or the watch at the deadline, decides.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from threading import Lock, get_ident
from types import FrameType
from typing import Any, TypeVar

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from ultimate_jobs.interruptions import AttemptTimeout
from ultimate_jobs.processes import connections
from ultimate_jobs.processes.crew import Run
from ultimate_jobs.processes.loops import Loop

T = TypeVar("T")

# Seconds. A body that was told may have begun another query meanwhile.
AGAIN = 0.25
# How long the loop sleeps when nothing is watched.
IDLE = 60.0
# How often a body at its end looks whether the watch has spoken, which takes it microseconds.
TICK = 0.0005


class Watch:
    """One attempt with a deadline.

    Attributes:
        seconds: how long the attempt may take.
        thread: where its body runs; ``None`` for an async one, which its context interrupts.
    """

    def __init__(
        self, run: Run, seconds: float, *, thread: int | None, arm: Callable[[Watch], None]
    ) -> None:
        self.run = run
        self.seconds = seconds
        self.thread = thread
        self.deadline = run.context.limit(seconds)
        # A deque, because its pop is atomic without a lock: an exception that is raised between
        # two instructions could leave a lock behind.
        self._permit = deque([None])
        self._ending = deque([None])
        self._told = False
        self._lock = Lock()
        self._ended = False
        self._connections = [] if thread is None else connections.opened()
        self._arm = arm

    @property
    def told(self) -> bool:
        """Whether the deadline came before the body's end."""
        return self._told

    @property
    def ended(self) -> bool:
        return self._ended

    def call(self, body: Callable[[], T]) -> T:
        """Call a body in this thread; when this is over, nothing more is raised into it."""
        try:
            try:
                self._arm(self)
                return body()
            finally:
                self._leave()
        except BaseException:
            # The exception may have come just before _leave() did its work, and comes only once.
            self._leave()
            raise

    async def wait_for(self, body: Awaitable[T]) -> T:
        """Await a body; when this is over, its context interrupts nothing."""
        try:
            self._arm(self)
            return await body
        finally:
            self._leave()

    def take_ending(self) -> bool:
        """Claim the right to say how the attempt ended; the first who asks gets it."""
        return _take(self._ending)

    def opened(self, connection: BaseDatabaseWrapper) -> None:
        """The body has this connection too."""
        self._connections.append(connection)

    def tell(self) -> None:
        """Tell the body that its time is over; nothing happens where it has ended."""
        if not _take(self._permit):
            return
        self.run.context.interrupt(AttemptTimeout())
        self.run.context.remember_interrupted()
        if self.thread is not None:
            _raise_in(self.thread, ctypes.py_object(AttemptTimeout))
        self._told = True

    def cancel_queries(self) -> None:
        """Cancel what the body's connections run; never what runs after it."""
        with self._lock:
            if not self._ended:
                for connection in self._connections:
                    connections.cancel_query(connection)

    def frame(self) -> FrameType | None:
        """Return where the body is now."""
        return None if self.thread is None else sys._current_frames().get(self.thread)

    def _leave(self) -> None:
        """The body has ended: make sure that nothing is raised any more, or take it here."""
        if self._ended:
            return
        try:
            if not _take(self._permit):
                while not self._told:
                    time.sleep(TICK)
                if self.thread is not None:
                    _raise_in(self.thread, None)
        except AttemptTimeout:
            pass
        with self._lock:
            self._ended = True


class Deadlines:
    """Watches the attempts of this process from a thread of its own.

    Args:
        stuck_after: seconds after its deadline at which a body is fenced out.
        on_stuck: called for a body that did not stop; it has lost the right to its own ending.
    """

    def __init__(
        self,
        *,
        stuck_after: float,
        on_stuck: Callable[[Watch], None],
        on_bug: Callable[[], None],
    ) -> None:
        self.loop = Loop("deadlines", self.step, alias=None, on_bug=on_bug)
        self._stuck_after = stuck_after
        self._on_stuck = on_stuck
        self._lock = Lock()
        self._due: dict[Watch, float] = {}
        self._by_thread: dict[int, Watch] = {}
        self._wakes_at = 0.0

    def start(self) -> None:
        """Begin to watch."""
        connection_created.connect(self._note_connection)
        self.loop.start()

    def stop(self, *, timeout: float) -> None:
        """Watch no more."""
        connection_created.disconnect(self._note_connection)
        self.loop.stop(timeout=timeout)

    def watch(self, run: Run, seconds: float) -> Watch:
        """Return the watch by which a body is to be called in this thread."""
        thread = get_ident()
        watch = Watch(run, seconds, thread=thread, arm=self._add)
        self._by_thread[thread] = watch
        return watch

    def watch_async(self, run: Run, seconds: float) -> Watch:
        """Return the watch by which a body is to be awaited on an event loop."""
        return Watch(run, seconds, thread=None, arm=self._add)

    def forget(self, watch: Watch) -> None:
        """The attempt is over."""
        with self._lock:
            self._due.pop(watch, None)
        if watch.thread is not None:
            self._by_thread.pop(watch.thread, None)

    def step(self) -> float:
        """Do what is due, and return the pause until more is."""
        now = time.monotonic()
        with self._lock:
            due = [watch for watch, at in self._due.items() if at <= now]
        for watch in due:
            self._act(watch, now)
        with self._lock:
            self._wakes_at = min(self._due.values(), default=now + IDLE)
            return self._wakes_at - time.monotonic()

    def _act(self, watch: Watch, now: float) -> None:
        stuck_at = watch.deadline + self._stuck_after
        if now >= stuck_at:
            self._fence(watch)
            return
        watch.tell()
        if watch.told:
            watch.cancel_queries()
        with self._lock:
            if watch in self._due:
                self._due[watch] = min(now + AGAIN, stuck_at)

    def _fence(self, watch: Watch) -> None:
        with self._lock:
            self._due.pop(watch, None)
        # A body that stands still in its own cleanup, past leave(), has ended in time.
        if not watch.ended and watch.take_ending():
            self._on_stuck(watch)

    def _add(self, watch: Watch) -> None:
        with self._lock:
            self._due[watch] = watch.deadline
            is_next = watch.deadline < self._wakes_at
        if is_next:
            self.loop.wake.call()

    def _note_connection(self, *, connection: BaseDatabaseWrapper, **_: Any) -> None:
        watch = self._by_thread.get(get_ident())
        if watch is not None:
            watch.opened(connection)


def _take(permit: deque[None]) -> bool:
    try:
        permit.pop()
    except IndexError:
        return False
    return True


def _raise_in(thread: int, error: Any) -> None:
    """Set what a thread raises at its next instruction; ``None`` takes back what it has not yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)
