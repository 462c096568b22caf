"""Frozen records of limit slots that cross the border between services and drivers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from ultimate_jobs.limits import Scope
from ultimate_jobs.types import Claim


@dataclass(frozen=True, slots=True)
class Candidate:
    """A waiting job that is due, read without a lock."""

    id: UUID
    name: str
    queue: str
    tenant: str | None
    priority: int
    due_at: datetime
    serial_key: str | None
    payload: str


@dataclass(frozen=True, slots=True)
class SlotNeed:
    """What one job must hold to begin: all of it, or it holds nothing."""

    job: UUID
    scopes: tuple[Scope, ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """One taken slot; ``(id, token)`` is this very taking, so a second release does nothing."""

    id: int
    token: int
    name: str
    number: int
    is_held: bool = True
    """Given back when the job ends; a counted start is not."""


Held = dict[UUID, tuple[Slot, ...]]
"""The slots of each job that got all it needs."""


@dataclass(slots=True)
class LimitedClaims:
    """Claims and their slots; ``slots`` has an entry for each claim."""

    claims: list[Claim] = field(default_factory=list)
    slots: Held = field(default_factory=dict)

    def add(self, other: LimitedClaims) -> None:
        """Take over what another round brought."""
        self.claims += other.claims
        self.slots.update(other.slots)


@dataclass(frozen=True, slots=True)
class Peek:
    """Which waiting jobs to look at, without taking any.

    Attributes:
        names: the names to look for.
        lane_names: of these, only the first job of each lane.
        after_lane: where the look at the lanes goes on; ``""`` begins anew.
        with_strays: look for jobs of ``lane_names`` that stand in no lane, too.
        queues: the queues to look into; ``None`` is every one that has work.
        shut_queues: not these.
        limit: about so many of each kind.
    """

    limit: int
    names: tuple[str, ...] = ()
    lane_names: tuple[str, ...] = ()
    after_lane: str = ""
    with_strays: bool = False
    queues: tuple[str, ...] | None = None
    shut_queues: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Peeked:
    """What was seen, and where the next look at the lanes goes on."""

    candidates: list[Candidate]
    after_lane: str = ""


@dataclass(frozen=True, slots=True)
class SlotHolder:
    """Who holds a valid slot; ``job`` is ``None`` where the row does not tell."""

    name: str
    number: int
    job: UUID | None
    expires_at: datetime
