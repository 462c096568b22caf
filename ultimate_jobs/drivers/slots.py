"""The protocol of limit slots: taken all or none for a job, and claimed together with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

from ultimate_jobs.slots import (
    Held,
    LimitedClaims,
    Peek,
    Peeked,
    Slot,
    SlotHolder,
    SlotNeed,
)
from ultimate_jobs.types import Claim


class Slots(Protocol):
    """The slots of limits; valid ones of a name are never more than its limit."""

    def take(self, worker: UUID, needs: Sequence[SlotNeed]) -> Held:
        """Take what each job needs, all of it or nothing, and answer for those that got it."""
        ...

    def release(self, slots: Sequence[Slot]) -> None:
        """Give taken slots back; a counted start, and a slot that is another's now, stays."""
        ...

    def used(self, names: Sequence[str]) -> dict[str, int]:
        """Return how many slots of each name are valid; a name that has none may be missing."""
        ...

    def held_by(self, worker: UUID) -> list[Slot]:
        """Return the slots that a worker holds, for one whose claim was not answered."""
        ...

    def holders(self, names: Sequence[str]) -> list[SlotHolder]:
        """Return who holds the valid slots of these names."""
        ...

    def obstacles(self, job: UUID) -> tuple[bool, UUID | None]:
        """Return whether a waiting job is locked, and which job of its lane comes before it."""
        ...

    def peek(self, peek: Peek) -> Peeked:
        """Return waiting jobs that are due, taking none; by no order that a caller may rely on."""
        ...

    def claim(self, worker: UUID, needs: Sequence[SlotNeed]) -> LimitedClaims:
        """Claim those of these jobs that still wait and get all they need; each needs something."""
        ...

    def claim_and_shed(
        self,
        worker: UUID,
        claim: Callable[[], list[Claim]],
        choose: Callable[[list[Claim]], list[SlotNeed]],
        *,
        delay_ms: int,
    ) -> tuple[LimitedClaims, list[Claim]]:
        """Claim first, and put back what does not get its slots; nobody sees it in between.

        Args:
            claim: claims, whatever the limits.
            choose: returns the claims that may start, with what they need, perhaps nothing.
            delay_ms: how long what is put back is not claimed again.

        Returns:
            The claims that may start, and those that were put back.
        """
        ...
