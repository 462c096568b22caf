"""What a claimer knows of the queues between two surveys, and how a claim is spread over it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

# One claim looks into so many heads of a party: those whose first job is owed longest. With 200
# queues of 100 jobs, one that looked into all of them took 480 ms, and one into eight takes 45.
MOST_MERGED = 8
# With more tenants than a claim has room for, each gets a few at its turn: a claim that took one
# job from each of 500 tenants would cost twice one that takes ten from each of 50.
TURN = 10
# Heads that have run empty are still looked at for so long: a job that comes to one of them is then
# found by the claim alone, without a survey before it.
REMEMBERED_SECONDS = 30.0
MOST_REMEMBERED = 64

Line = tuple[bool, str, int, str]


@dataclass(slots=True, eq=False)
class Head:
    """A line of due jobs: of one queue, priority and tenant, or all the waiting ones of the two.

    Attributes:
        at, id: where the next claim begins; nothing due is known to stand before it.
        turn: the number of the claim that last took from it.
        seen: when it last had a due job, on the claimer's clock.
    """

    waiting: bool
    queue: str
    priority: int
    tenant: str
    at: datetime
    id: UUID
    seen: float
    turn: int = 0

    @property
    def line(self) -> Line:
        return (self.waiting, self.queue, self.priority, self.tenant)

    def gave(self, at: datetime, id_: UUID, *, turn: int, now: float) -> None:
        """Begin the next claim where this one ended."""
        self.at, self.id = at, id_
        self.turn, self.seen = turn, now


@dataclass(frozen=True, slots=True)
class Share:
    """How many jobs a claim may take from the heads of one party, which give them by age."""

    heads: tuple[Head, ...]
    quota: int

    @property
    def is_merged(self) -> bool:
        return len(self.heads) > 1


class Heads:
    """The heads that are known, by line.

    Attributes:
        remembered: the lines in which the last survey found nothing.
    """

    def __init__(self) -> None:
        self._heads: dict[Line, Head] = {}
        self.remembered: frozenset[Line] = frozenset()

    def __len__(self) -> int:
        return len(self._heads)

    def survey(self, rows: Iterable[tuple[Any, ...]], *, now: float) -> None:
        """Take over what a survey found: each line begins again at its first due job."""
        found = [
            Head(waiting, queue, priority, tenant, at, id_, now)
            for waiting, queue, priority, tenant, at, id_ in rows
        ]
        known = self._heads
        for head in found:
            before = known.pop(head.line, None)
            if before is not None:
                head.turn = before.turn
        empty = [head for head in known.values() if now - head.seen < REMEMBERED_SECONDS]
        empty.sort(key=lambda head: head.seen, reverse=True)
        del empty[MOST_REMEMBERED:]
        self.remembered = frozenset(head.line for head in empty)
        self._heads = {head.line: head for head in [*found, *empty]}

    def shares(self, limit: int, *, without: set[Line]) -> list[Share]:
        """Return how a claim of ``limit`` is spread: higher priorities first, tenants in rotation.

        Args:
            without: lines that have just given all they had.
        """
        shares: list[Share] = []
        usable = (head for head in self._heads.values() if head.line not in without)
        by_priority = sorted(usable, key=lambda head: -head.priority)
        room = limit
        for _, level in groupby(by_priority, key=lambda head: head.priority):
            parties = _parties(list(level))
            quota = max(-(-limit // len(parties)), min(TURN, limit // 8))
            for heads in parties:
                shares.append(Share(tuple(heads[:MOST_MERGED]), quota))
                room -= quota
                # Twice what is wanted: others may give less than their quota.
                if room <= -limit:
                    return shares
        return shares


def _parties(level: list[Head]) -> list[list[Head]]:
    """Group the heads of one priority by whose turn they share, the longest unserved first."""
    tenants = {head.tenant for head in level if not head.waiting}
    # What waits of all tenants takes turns with them like one of their number, unless there is one.
    party_of_waiting = tenants.pop() if len(tenants) == 1 else None
    parties: dict[str | None, list[Head]] = {}
    for head in level:
        parties.setdefault(party_of_waiting if head.waiting else head.tenant, []).append(head)
    for heads in parties.values():
        heads.sort(key=lambda head: head.at)
    return sorted(
        parties.values(), key=lambda heads: (max(head.turn for head in heads), heads[0].at)
    )
