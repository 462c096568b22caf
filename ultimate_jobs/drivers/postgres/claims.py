"""Claims on PostgreSQL: which jobs a worker takes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any
from uuid import UUID

from ultimate_jobs.drivers.postgres.heads import Head, Heads, Line, Share
from ultimate_jobs.drivers.postgres.statements import Statements, texts
from ultimate_jobs.types import Claim

Row = tuple[Any, ...]

# Columns of a claimed row that are looked at before it becomes a claim.
ID, QUEUE, TENANT, PRIORITY, DUE_AT, RUN_AT = 0, 3, 4, 12, 13, 15

# A survey is made at most so often that it takes a fifth of the time: under a snapshot that is held
# open it reads the dead entry of every job that was claimed since.
REST = 4.0
LEAST_REST = 0.01


class PostgresClaimer:
    """Claims for one worker, again and again, and remembers where it left off.

    Args:
        queues: the queues to look at; ``None`` means every queue that has work.
        names: the job names that may be claimed.
        without: queues that are left out, whatever ``queues`` says.
        survey_every: seconds after which it looks at everything anew. What comes to stand before
            the place where it left off (a late commit, a job that was given back) or to a line that
            it does not know is claimed no later.
    """

    def __init__(
        self,
        run: Statements,
        *,
        queues: tuple[str, ...] | None,
        names: tuple[str, ...],
        without: tuple[str, ...] = (),
        survey_every: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._queues = queues
        self._names = names
        self._names_array = texts(names)
        self._without = frozenset(without)
        self._survey_every = survey_every
        self._clock = clock
        self._heads = Heads()
        self._surveyed_at: float | None = None
        self._rest = 0.0
        self._put_off = False
        self._turn = 0
        self._takes = 0

    def claim(self, worker: UUID, limit: int) -> list[Claim]:
        """Take at most ``limit`` due jobs.

        By priority, then due time, then id, within one tenant; between tenants in rotation.
        """
        if limit < 1 or not self._names or self._queues == ():
            return []
        rows: list[Row] = []
        self._takes = 0
        surveyed = self._must_survey()
        if surveyed:
            self._survey()
        self._fill(rows, worker, limit, just_surveyed=surveyed)
        # What was found is handed over first: it must not wait for a look at everything else.
        self._put_off = len(rows) < limit and not surveyed
        if self._put_off and not rows and self._may_survey():
            self._survey()
            self._put_off = False
            self._fill(rows, worker, limit, just_surveyed=True)
        in_turn = rows if self._takes == 1 and len(self._heads) == 1 else _in_turn(rows)
        return [claim_of(worker, row) for row in in_turn]

    def rehearse(self, worker: UUID) -> None:
        """Send every statement of a claim once, over no head."""
        self._survey()
        self._count([])
        self._take(worker, [], 0)

    @property
    def owed_in(self) -> float | None:
        if not self._put_off or self._surveyed_at is None:
            return None
        return max(0.0, self._surveyed_at + self._rest - self._clock())

    def _must_survey(self) -> bool:
        if self._surveyed_at is None:
            return True
        age = self._clock() - self._surveyed_at
        return age >= max(self._survey_every, self._rest)

    def _may_survey(self) -> bool:
        return self._surveyed_at is None or self._clock() - self._surveyed_at >= self._rest

    def _survey(self) -> None:
        began = self._clock()
        queues = None if self._queues is None else list(self._queues)
        rows = self._run.rows("claims.heads", queues=queues, names=self._names_array)
        if self._without:
            rows = [row for row in rows if row[1] not in self._without]
        now = self._clock()
        self._heads.survey(rows, now=now)
        self._surveyed_at = now
        self._rest = max(LEAST_REST, REST * (now - began))

    def _fill(
        self, rows: list[Row], worker: UUID, limit: int, *, just_surveyed: bool = False
    ) -> None:
        """Claim until the limit is reached or every known head is empty."""
        empty: set[Line] = set(self._heads.remembered) if just_surveyed else set()
        while len(rows) < limit:
            wanted = limit - len(rows)
            shares = self._heads.shares(wanted, without=empty)
            if not shares:
                return
            asked, last = self._spread(shares)
            if asked:
                taken = self._take(worker, asked, wanted)
                self._note(asked, taken, wanted, empty)
                self._heads.pass_turns(self._turn)
                rows += taken
            empty |= last

    def _spread(self, shares: Sequence[Share]) -> tuple[list[tuple[Head, int]], set[Line]]:
        """Return how much to ask of which head, and the lines that have no more than that."""
        merged = [share for share in shares if share.is_merged]
        counts = self._count(merged) if merged else Counter[Line]()
        asked: list[tuple[Head, int]] = []
        last: set[Line] = set()
        for share in shares:
            if not share.is_merged:
                asked.append((share.heads[0], share.quota))
                continue
            found = [(head, counts[head.line]) for head in share.heads]
            asked += [(head, count) for head, count in found if count]
            if sum(count for _, count in found) < share.quota:
                last.update(head.line for head in share.heads)
        return asked, last

    def _count(self, shares: Sequence[Share]) -> Counter[Line]:
        flat = [
            (head, share.quota, party) for party, share in enumerate(shares) for head in share.heads
        ]
        rows = self._run.rows(
            "claims.shares",
            **_lines([head for head, _, _ in flat]),
            quotas=[quota for _, quota, _ in flat],
            parties=[party for _, _, party in flat],
            names=self._names_array,
            most=max((quota for _, quota, _ in flat), default=0),
        )
        return Counter({flat[position - 1][0].line: count for position, count in rows})

    def _take(self, worker: UUID, asked: Sequence[tuple[Head, int]], wanted: int) -> list[Row]:
        if len(asked) == 1 and not asked[0][0].waiting:
            head, quota = asked[0]
            return self._run.rows(
                "claims.claim_line",
                queue=head.queue,
                priority=head.priority,
                tenant=head.tenant,
                at=head.at,
                id=head.id,
                names=self._names_array,
                wanted=min(quota, wanted),
                worker=worker,
            )
        return self._run.rows(
            "claims.claim",
            **_lines([head for head, _ in asked]),
            quotas=[quota for _, quota in asked],
            names=self._names_array,
            most=max((quota for _, quota in asked), default=0),
            wanted=wanted,
            worker=worker,
        )

    def _note(
        self, asked: Sequence[tuple[Head, int]], taken: list[Row], wanted: int, empty: set[Line]
    ) -> None:
        """Move the heads that gave something, and tell those apart that have no more.

        Leaves what was taken sorted by age.
        """
        self._turn += 1
        self._takes += 1
        now = self._clock()
        taken.sort(key=_age)
        if len(asked) == 1 and not asked[0][0].waiting:
            head, quota = asked[0]
            if taken:
                head.gave(taken[-1][DUE_AT], taken[-1][ID], turn=self._turn, now=now)
            if len(taken) < min(quota, wanted):
                empty.add(head.line)
            return
        gave: Counter[Line] = Counter()
        furthest: dict[Line, Row] = {}
        for row in taken:
            line = (False, row[QUEUE], row[PRIORITY], row[TENANT] or "")
            gave[line] += 1
            furthest[line] = row
        ready = {(head.queue, head.priority) for head, _ in asked if not head.waiting}
        for head, quota in asked:
            if head.waiting:
                self._note_waiting(head, taken, ready, now)
                is_empty = True
            else:
                last = furthest.get(head.line)
                if last is not None:
                    head.gave(last[DUE_AT], last[ID], turn=self._turn, now=now)
                is_empty = gave[head.line] < quota
            if is_empty and len(taken) < wanted:
                empty.add(head.line)

    def _note_waiting(
        self, head: Head, taken: Sequence[Row], ready: set[tuple[str, int]], now: float
    ) -> None:
        mine = [row for row in taken if (row[QUEUE], row[PRIORITY]) == (head.queue, head.priority)]
        if not mine:
            return
        if (head.queue, head.priority) in ready:
            # A row does not tell from which of the two lines it came, and no due job may be left
            # before its head: so this line stays where it is.
            head.turn, head.seen = self._turn, now
        else:
            last = max(mine, key=lambda row: (row[RUN_AT], row[ID].int))
            head.gave(last[RUN_AT], last[ID], turn=self._turn, now=now)


def _age(row: Row) -> tuple[datetime, int]:
    # Ids as numbers: comparing UUIDs costs ten times as much.
    return (row[DUE_AT], row[ID].int)


def _lines(heads: Sequence[Head]) -> dict[str, list[Any]]:
    return {
        "waiting": [head.waiting for head in heads],
        "queues": [head.queue for head in heads],
        "priorities": [head.priority for head in heads],
        "tenants": [head.tenant for head in heads],
        "ats": [head.at for head in heads],
        "ids": [head.id for head in heads],
    }


def _in_turn(rows: list[Row]) -> list[Row]:
    """Sort claimed rows as they are to run: by priority, between tenants in turn, then by age."""
    rows.sort(key=_age)
    if len({(row[PRIORITY], row[TENANT]) for row in rows}) < 2:
        return rows
    place: Counter[tuple[int, str | None]] = Counter()
    keyed = []
    for row in rows:
        party = (row[PRIORITY], row[TENANT])
        place[party] += 1
        keyed.append((-row[PRIORITY], place[party], row))
    keyed.sort(key=itemgetter(0, 1))
    return [row for _, _, row in keyed]


def claim_of(worker: UUID, row: Sequence[Any]) -> Claim:
    """Return a claimed row, with whatever stands behind the columns of a claim left out."""
    # By place: the statement returns the columns in the order of the fields, and RUN_AT last.
    return Claim._make((*row[:7], worker, *row[7:RUN_AT]))
