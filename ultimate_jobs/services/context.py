"""What a body knows of its run, and how it learns that it should stop."""

from __future__ import annotations

from contextvars import ContextVar
from uuid import UUID

from ultimate_jobs.interruptions import ClaimLost, Interruption, JobCancelled
from ultimate_jobs.types import Claim

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
        """Whether ``check()`` has raised; such a run never completes, whatever its body returns."""
        return self._interrupted

    def check(self) -> None:
        """Stop here if the run was cancelled or its claim was lost; call it inside long loops.

        Raises:
            JobCancelled, ClaimLost: neither derives from ``Exception``; let them pass.
        """
        if self._interruption is not None:
            self._interrupted = True
            raise self._interruption

    def interrupt(self, interruption: Interruption) -> None:
        """Make the next ``check()`` raise; a lost claim outranks a cancel."""
        if self._interruption is None or isinstance(interruption, ClaimLost):
            self._interruption = interruption

    @property
    def cancelled(self) -> bool:
        """Whether someone asked this run to stop."""
        return isinstance(self._interruption, JobCancelled)


def current_context() -> JobContext | None:
    """Return the context of the body that runs here, if one does."""
    return _current.get()


def enter_context(context: JobContext | None) -> None:
    """Set what ``current_context()`` returns in this thread or task."""
    _current.set(context)
