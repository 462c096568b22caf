"""What became of a claim and waits to be written, and what is told once it is."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from uuid import UUID

from ultimate_jobs.events import emit
from ultimate_jobs.states import JobState
from ultimate_jobs.types import Claim, Completion, Nack


@dataclass(slots=True)
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
    handed_back: int = 0
    lost: int = 0

    def add(self, what: str) -> None:
        """Count one; only the thread that writes does."""
        setattr(self, what, getattr(self, what) + 1)

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return asdict(self)


def tell_written(outcome: Outcome, state: JobState | None, tally: Tally) -> None:
    """Count and announce a claim whose end is committed."""
    write = outcome.write
    if state is JobState.CANCELLED:
        tally.add("cancelled")
        emit("jobs.attempt.cancelled", **_facts(outcome.claim))
    elif isinstance(write, Completion):
        tally.add("completed")
    elif write.failure is None:
        tally.add("handed_back")
    else:
        what = "dead" if state is JobState.DEAD else "failed"
        tally.add(what)
        emit(
            f"jobs.attempt.{what}",
            **_facts(outcome.claim),
            attempt=outcome.claim.attempt,
            max_attempts=outcome.claim.max_attempts,
            error_class=write.failure.error_class,
            delay_ms=write.delay_ms,
        )


def tell_lost(outcome: Outcome, tally: Tally) -> None:
    """Count and announce a write that was refused because the claim is another's now."""
    tally.add("lost")
    claim = outcome.claim
    emit("jobs.claim.lost", **_facts(claim), worker=str(claim.worker), token=claim.token)


def _facts(claim: Claim) -> dict[str, str]:
    return {"job_id": str(claim.id), "job": claim.name, "queue": claim.queue}
