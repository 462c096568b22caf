"""What became of a claim and waits to be written, and what is told once it is."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from threading import Lock
from uuid import UUID

from ultimate_jobs.events import emit
from ultimate_jobs.processes import connections
from ultimate_jobs.signals import job_dead, job_failed, tell
from ultimate_jobs.states import JobState
from ultimate_jobs.types import Claim, Completion, Nack


@dataclass(slots=True, eq=False)
class Outcome:
    """One claim and the write that ends it.

    Attributes:
        tries: how often it could not be written by itself, for example because another
            transaction held the row.
        not_before: monotonic time of the next try.
        in_doubt: a write failed with its connection, so it may have been committed unseen.
        replaced: the write is a substitute for one that the database refused.
    """

    claim: Claim
    write: Completion | Nack
    tries: int = 0
    not_before: float = 0.0
    in_doubt: bool = False
    replaced: bool = False
    size: int = field(init=False)
    """How many characters it keeps in memory, roughly."""

    def __post_init__(self) -> None:
        result = self.write.result if isinstance(self.write, Completion) else None
        self.size = len(self.claim.payload) + len(result or "")

    @property
    def key(self) -> tuple[UUID, int]:
        """The one claim it ends."""
        return (self.claim.id, self.claim.token)


@dataclass(slots=True)
class Tally:
    """How many claims ended how; each is counted once it is written."""

    completed: int = 0
    failed: int = 0
    dead: int = 0
    cancelled: int = 0
    discarded: int = 0
    deferred: int = 0
    handed_back: int = 0
    lost: int = 0
    _lock: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    def add(self, what: str, count: int = 1) -> None:
        """Count; called by any thread, since an atomic body's own thread commits its end."""
        with self._lock:
            setattr(self, what, getattr(self, what) + count)

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.init}


def tell_written(outcome: Outcome, state: JobState | None, tally: Tally) -> None:
    """Count and announce a claim whose end is committed."""
    write = outcome.write
    if isinstance(write, Completion) or state is JobState.COMPLETED:
        # Also a nack whose claim, as it turns out, an unseen commit had completed.
        tell_ended(outcome.claim, state, tally)
    elif state is JobState.CANCELLED and write.discard:
        tally.add("discarded")
        error_class = write.failure.error_class if write.failure else ""
        emit("jobs.attempt.discarded", **_facts(outcome.claim), error_class=error_class)
    elif state is JobState.CANCELLED:
        tell_ended(outcome.claim, state, tally)
    elif write.deferral is not None and state is not JobState.DEAD:
        tally.add("deferred")
        facts = {"delay_ms": write.delay_ms, "counted": write.counts_as_attempt}
        emit("jobs.attempt.deferred", **_facts(outcome.claim), **facts)
    else:
        failure = write.failure if write.deferral is None else write.deferral.spent
        if failure is None:
            tally.add("handed_back")
        else:
            _tell_failed(outcome.claim, write, failure.error_class, state, tally)


def tell_ended(claim: Claim, state: JobState | None, tally: Tally) -> None:
    """Count and announce a job that was completed, or cancelled instead."""
    if state is JobState.CANCELLED:
        tally.add("cancelled")
        emit("jobs.attempt.cancelled", **_facts(claim))
    else:
        tally.add("completed")


def tell_lost(outcome: Outcome, tally: Tally) -> None:
    """Count and announce a write that was refused because the claim is another's now."""
    tally.add("lost")
    claim = outcome.claim
    emit("jobs.claim.lost", **_facts(claim), worker=str(claim.worker), token=claim.token)


def _tell_failed(
    claim: Claim, write: Nack, error_class: str, state: JobState | None, tally: Tally
) -> None:
    what = "dead" if state is JobState.DEAD else "failed"
    tally.add(what)
    emit(
        f"jobs.attempt.{what}",
        **_facts(claim),
        attempt=claim.attempt,
        max_attempts=claim.max_attempts,
        error_class=error_class,
        delay_ms=write.delay_ms,
    )
    will_retry = what == "failed"
    before = connections.open_blocks()
    heard = tell(
        job_failed, claim, error_class=error_class, will_retry=will_retry, delay_ms=write.delay_ms
    )
    if not will_retry:
        heard = tell(job_dead, claim, error_class=error_class) or heard
    if heard:
        # The receivers used the connections of the thread that writes.
        connections.tidy(before)


def _facts(claim: Claim) -> dict[str, str]:
    return {"job_id": str(claim.id), "job": claim.name, "queue": claim.queue}
