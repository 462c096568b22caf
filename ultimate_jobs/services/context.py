"""What a body knows of its run, and how it learns that it should stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from uuid import UUID

from ultimate_jobs.interruptions import AttemptTimeout, ClaimLost, Interruption, JobCancelled
from ultimate_jobs.types import Claim

# Weaker ones first: what another worker holds is not this one's to end, whatever else was asked.
_STRENGTH = (JobCancelled, AttemptTimeout, ClaimLost)

_current: ContextVar[JobContext | None] = ContextVar("ultimate_jobs_context", default=None)


class JobContext:
    """The first argument of every body.

    Attributes:
        job_id: the stored job.
        run_id: the logical execution; it stays the same across attempts.
        attempt: 1 for the first try.
    """

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._interruption: Interruption | None = None
        self._interrupted = False
        self._fenced = False
        self._timeout: float | None = None
        self._deadline = 0.0
        self._on_interrupt: Callable[[], None] | None = None

    @property
    def job_id(self) -> UUID:
        return self._claim.id

    @property
    def run_id(self) -> UUID:
        return self._claim.run_id

    @property
    def name(self) -> str:
        return self._claim.name

    @property
    def queue(self) -> str:
        return self._claim.queue

    @property
    def tenant(self) -> str | None:
        return self._claim.tenant

    @property
    def attempt(self) -> int:
        return self._claim.attempt

    @property
    def max_attempts(self) -> int:
        return self._claim.max_attempts

    @property
    def traceparent(self) -> str | None:
        return self._claim.traceparent

    @property
    def interrupted(self) -> bool:
        """Whether the body was told to stop; such a run never completes, whatever it returns."""
        return self._interrupted

    def remaining(self) -> float | None:
        """Return the seconds until this attempt's timeout, 0 past it; ``None`` without one."""
        return None if self._timeout is None else max(0.0, self._deadline - time.monotonic())

    def check(self) -> None:
        """Stop here if the run was cancelled, timed out or lost; call it inside long loops.

        Raises:
            JobCancelled, AttemptTimeout, ClaimLost: none derives from ``Exception``; let them pass.
        """
        if self._interruption is not None:
            self._interrupted = True
            raise self._interruption

    def interrupt(self, interruption: Interruption) -> None:
        """Make the next ``check()`` raise, and an async body's next await.

        A lost claim outranks a timeout, and that a cancel.
        """
        if self._strength(interruption) <= self._strength(self._interruption):
            return
        self._interruption = interruption
        # Read once: the body's end may take it away meanwhile.
        on_interrupt = self._on_interrupt
        if on_interrupt is not None:
            on_interrupt()

    def remember_interrupted(self) -> None:
        """Note that the body is told now, by other means than ``check()``."""
        self._interrupted = True

    def on_interrupt(self, call: Callable[[], None] | None) -> None:
        """Call this, in any thread, when the run is to stop; at once where it already is."""
        self._on_interrupt = call
        if call is not None and self._interruption is not None:
            call()

    def limit(self, seconds: float) -> float:
        """Begin an attempt that may take so long, and return the monotonic time of its end."""
        self._timeout = seconds
        self._deadline = time.monotonic() + seconds
        return self._deadline

    def fence(self) -> None:
        """The body did not stop in time: its end is written by another, and its own is void."""
        self._fenced = True
        self.interrupt(ClaimLost())

    @property
    def cancelled(self) -> bool:
        """Whether someone asked this run to stop."""
        return isinstance(self._interruption, JobCancelled)

    @property
    def lost(self) -> bool:
        """Whether nothing that this body does can be written any more."""
        return isinstance(self._interruption, ClaimLost)

    @property
    def fenced(self) -> bool:
        """Whether it was lost because it outlived its timeout."""
        return self._fenced

    @property
    def timed_out(self) -> float | None:
        """The timeout in seconds, where it is what stopped this attempt."""
        return self._timeout if isinstance(self._interruption, AttemptTimeout) else None

    @staticmethod
    def _strength(interruption: Interruption | None) -> int:
        return -1 if interruption is None else _STRENGTH.index(type(interruption))


def current_context() -> JobContext | None:
    """Return the context of the body that runs here, if one does."""
    return _current.get()


def enter_context(context: JobContext | None) -> None:
    """Set what ``current_context()`` returns in this thread or task."""
    _current.set(context)
