"""Why and how fast a worker stops: signals, the end of a burst, a bug."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ultimate_jobs.processes.wakes import Wake

SIGNALS = (signal.SIGTERM, signal.SIGINT)
# The terminal was closed; not everywhere, and under nohup it is to be ignored.
HANGUP = getattr(signal, "SIGHUP", None)


class Stop:
    """Set by a signal handler or another thread, read by the main thread.

    Args:
        grace: seconds that running bodies have from the request on.
        second_signal_hurries: not so in the child of a supervisor, which passes on by word what it
            is told: a service manager that signals every process may reach a child twice.

    Attributes:
        reason: why it was asked for; empty while it was not.
        failed: a loop died of a bug, or a body is stuck; the exit code says so.
    """

    def __init__(self, wake: Wake, *, grace: float, second_signal_hurries: bool = True) -> None:
        self._wake = wake
        self._grace = grace
        self._hurries = second_signal_hurries
        self._deadline: float | None = None
        self._signalled = False
        self.reason = ""
        self.failed = False

    @property
    def requested(self) -> bool:
        return bool(self.reason)

    def request(self, reason: str) -> None:
        """Stop claiming, and let the running bodies end within the grace."""
        if not self.reason:
            self._deadline = time.monotonic() + self._grace
            self.reason = reason
        self._wake.call()

    def hurry(self, reason: str) -> None:
        """Stop now."""
        self.reason = self.reason or reason
        self._deadline = time.monotonic()
        self._wake.call()

    def recycle(self, reason: str) -> None:
        """Stop in order, and say at the end that the process was not sound."""
        self.failed = True
        self.request(reason)

    def fail(self) -> None:
        """Stop now: a part of the worker is gone."""
        self.failed = True
        self.hurry("failure")

    def remaining(self) -> float:
        """Return the seconds of grace that are left."""
        return 0.0 if self._deadline is None else self._deadline - time.monotonic()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Obey SIGTERM, SIGINT and SIGHUP meanwhile: the first asks, the second hurries."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        obeyed = list(SIGNALS)
        if HANGUP is not None and signal.getsignal(HANGUP) is not signal.SIG_IGN:
            obeyed.append(HANGUP)
        before = [(number, signal.signal(number, self._handle)) for number in obeyed]
        try:
            yield
        finally:
            for number, handler in before:
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        # Where it stops for another reason already, a supervisor's word, this is the first one.
        if self._signalled and self._hurries:
            self.hurry(name)
        else:
            self._signalled = True
            self.request(name)
