"""What a claimer knows of the queues between two surveys, and how a claim is spread over it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

# So many heads of a party are merged by age, which reads a whole claim of each. Of more than that,
# each of those that are owed longest gives a part.
MOST_MERGED = 8
# With more tenants than a claim has room for, each gets a few at its turn: a claim that took one
# job from each of 500 tenants would cost twice one that takes twenty from each of 25.
TURN = 20
# Heads that have run empty are still looked at for so long: a job that comes to one of them is then
# found by the claim alone, without a survey before it.
REMEMBERED_SECONDS = 30.0
MOST_REMEMBERED = 64

Line = tuple[bool, str, int, str]
Party = list["Head"]


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
        # By descending priority, and within one the party whose turn is next comes first.
        self._levels: list[deque[Party]] = []
        # Which parties the last shares looked at: so many at the beginning of each level.
        self._looked_at: list[tuple[deque[Party], int]] = []
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
        by_priority = sorted(self._heads.values(), key=lambda head: -head.priority)
        self._levels = [
            deque(_parties(list(level)))
            for _, level in groupby(by_priority, key=lambda head: head.priority)
        ]
        self._looked_at = []

    def shares(self, limit: int, *, without: set[Line]) -> list[Share]:
        """Return how a claim of ``limit`` is spread: higher priorities first, tenants in rotation.

        Args:
            without: lines that have just given all they had.
        """
        shares: list[Share] = []
        self._looked_at = []
        room = limit
        for level in self._levels:
            parties = [[head for head in party if head.line not in without] for party in level]
            count = sum(1 for party in parties if party)
            if not count:
                continue
            quota = max(-(-limit // count), min(TURN, limit // 8))
            for place, heads in enumerate(parties, start=1):
                if heads:
                    shares += _shares(heads, quota)
                    room -= quota
                # Twice what is wanted: others may give less than their quota.
                if room <= -limit:
                    self._looked_at.append((level, place))
                    return shares
            self._looked_at.append((level, len(level)))
        return shares

    def pass_turns(self, turn: int) -> None:
        """Put the parties that gave something in this turn behind all others."""
        for level, count in self._looked_at:
            parties = [level.popleft() for _ in range(count)]
            served = [party for party in parties if any(head.turn == turn for head in party)]
            level.extendleft(reversed([party for party in parties if party not in served]))
            level.extend(served)
        self._looked_at = []


def _shares(heads: list[Head], quota: int) -> list[Share]:
    """Return the shares of a party: of few heads in order of age, of many what each has first."""
    if len(heads) > 1:
        heads = sorted(heads, key=lambda head: head.at)
    if len(heads) <= MOST_MERGED:
        return [Share(tuple(heads), quota)]
    each = -(-quota // MOST_MERGED)
    return [Share((head,), each) for head in heads[:MOST_MERGED]]


def _parties(level: list[Head]) -> list[Party]:
    """Group the heads of one priority by whose turn they share, the longest unserved first."""
    tenants = {head.tenant for head in level if not head.waiting}
    # What waits of all tenants takes turns with them like one of their number, unless there is one.
    party_of_waiting = tenants.pop() if len(tenants) == 1 else None
    parties: dict[str | None, Party] = {}
    for head in level:
        parties.setdefault(party_of_waiting if head.waiting else head.tenant, []).append(head)
    return sorted(
        parties.values(),
        key=lambda heads: (max(head.turn for head in heads), min(head.at for head in heads)),
    )
