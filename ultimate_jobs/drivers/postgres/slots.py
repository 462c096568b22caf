"""Limit slots on PostgreSQL, and the claims of jobs that need some.

Crash windows: between a taking and the release of what was too much, or between a job's end and the
release of its slots, a crash costs those slots until they expire, one TTL at most.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction

from ultimate_jobs.drivers.postgres import endings
from ultimate_jobs.drivers.postgres.claims import claim_of
from ultimate_jobs.drivers.postgres.statements import Statements
from ultimate_jobs.slots import (
    Candidate,
    Held,
    LimitedClaims,
    Peek,
    Peeked,
    Slot,
    SlotHolder,
    SlotNeed,
)
from ultimate_jobs.types import Claim, Nack

# A name with more live jobs is looked for from the heads of the queues.
FEW = 500
LEAST_OF_A_HEAD = 8
# So many lanes are looked at in one statement; more come in the next.
LANES = 500
MOST_LOOKS_AT_LANES = 4


class PostgresSlots:
    """A slot is a row of ``x_job_leases`` that the worker's heartbeat renews."""

    def __init__(self, alias: str, *, ttl_ms: int) -> None:
        self._run = Statements(alias)
        self._ttl_ms = ttl_ms

    def take(self, worker: UUID, needs: Sequence[SlotNeed]) -> Held:
        if not needs:
            return {}
        with transaction.atomic(using=self._run.alias):
            rows = self._run.rows("slots.take", **self._asked(worker, needs))
            taken: dict[UUID, list[Slot]] = {need.job: [] for need in needs}
            for job, *slot in rows:
                taken[job].append(_slot(slot))
            wanted = {need.job: len(need.scopes) for need in needs}
            short = [job for job, slots in taken.items() if len(slots) < wanted[job]]
            self._release([slot for job in short for slot in taken[job]])
        return {job: tuple(slots) for job, slots in taken.items() if job not in short}

    def release(self, slots: Sequence[Slot]) -> None:
        self._release([slot for slot in slots if slot.is_held])

    def used(self, names: Sequence[str]) -> dict[str, int]:
        return dict(self._run.rows("slots.used", names=list(names))) if names else {}

    def held_by(self, worker: UUID) -> list[Slot]:
        return [_slot(row) for row in self._run.rows("slots.held_by", worker=worker)]

    def holders(self, names: Sequence[str]) -> list[SlotHolder]:
        return [
            SlotHolder(name, number, UUID(job) if job else None, expires_at)
            for name, number, job, expires_at in self._run.rows("slots.holders", names=list(names))
        ]

    def obstacles(self, job: UUID) -> tuple[bool, UUID | None]:
        is_locked, behind = self._run.rows("slots.obstacles", job=job)[0]
        return is_locked, behind

    def peek(self, peek: Peek) -> Peeked:
        found = self._waiting(peek) if peek.names else []
        if not peek.lane_names:
            return Peeked(found)
        if peek.with_strays:
            found += self._strays(peek)
        return self._lanes(peek, found)

    def claim(self, worker: UUID, needs: Sequence[SlotNeed]) -> LimitedClaims:
        if not needs:
            return LimitedClaims()
        rows = self._run.rows(
            "slots.claim",
            worker=worker,
            ids=[need.job for need in needs],
            **self._asked(worker, needs),
        )
        claimed, orphans = LimitedClaims(), list[Slot]()
        for slots_text, *row in rows:
            slots = tuple(_slot(one) for one in json.loads(slots_text))
            if row[0] is None:
                orphans += slots
            else:
                claimed.claims.append(claim_of(worker, row))
                claimed.slots[row[0]] = slots
        self._release(orphans)
        return claimed

    def claim_and_shed(
        self,
        worker: UUID,
        claim: Callable[[], list[Claim]],
        choose: Callable[[list[Claim]], list[SlotNeed]],
        *,
        delay_ms: int,
    ) -> tuple[LimitedClaims, list[Claim]]:
        # One transaction: nobody sees a job running that is put back.
        with transaction.atomic(using=self._run.alias):
            claims = claim()
            behind = self._behind([one.id for one in claims])
            needs = choose([one for one in claims if one.id not in behind])
            held = self.take(worker, [need for need in needs if need.scopes])
            held.update({need.job: () for need in needs if not need.scopes})
            shed = [one for one in claims if one.id not in held]
            nacks = [
                Nack(one.id, one.token, counts_as_attempt=False, delay_ms=delay_ms) for one in shed
            ]
            endings.nack(self._run, worker, nacks)
        return LimitedClaims([one for one in claims if one.id in held], held), shed

    def _behind(self, jobs: list[UUID]) -> set[UUID]:
        return {row[0] for row in self._run.rows("slots.behind", jobs=jobs)} if jobs else set()

    def _asked(self, worker: UUID, needs: Sequence[SlotNeed]) -> dict[str, Any]:
        asked = [(need.job, scope) for need in needs for scope in need.scopes]
        return {
            "jobs": [job for job, _ in asked],
            "names": [scope.name for _, scope in asked],
            "most": [scope.most for _, scope in asked],
            # A counted start is no worker's: neither a heartbeat nor an end may touch it.
            "holders": [job if scope.period_ms else worker for job, scope in asked],
            "ttls_ms": [scope.period_ms or self._ttl_ms for _, scope in asked],
        }

    def _release(self, slots: Sequence[Slot]) -> None:
        if slots:
            self._run.rows(
                "slots.release",
                ids=[slot.id for slot in slots],
                tokens=[slot.token for slot in slots],
            )

    def _waiting(self, peek: Peek) -> list[Candidate]:
        rows = self._run.rows(
            "slots.few",
            names=list(peek.names),
            queues=_listed(peek.queues),
            shut=list(peek.shut_queues),
            most=FEW,
            limit=peek.limit,
        )
        crowded = [name for id_, name, *_ in rows if id_ is None]
        found = [Candidate(*row) for row in rows if row[0] is not None]
        return found + (self._from_heads(peek, crowded) if crowded else [])

    def _from_heads(self, peek: Peek, names: list[str]) -> list[Candidate]:
        heads = self._run.rows("claims.heads", queues=_listed(peek.queues), names=names)
        heads = [head for head in heads if head[1] not in peek.shut_queues]
        if not heads:
            return []
        columns = ("waiting", "queues", "priorities", "tenants", "ats", "ids")
        arrays = {
            column: list(values)
            for column, values in zip(columns, zip(*heads, strict=True), strict=True)
        }
        # Enough to fill the limit twice over; where that does not do, a longer look follows.
        most = min(peek.limit, max(LEAST_OF_A_HEAD, 2 * peek.limit // len(heads)))
        rows = self._run.rows("slots.peek", names=names, most=most, **arrays)
        return [Candidate(*row) for row in rows]

    def _lanes(self, peek: Peek, found: list[Candidate]) -> Peeked:
        after: str | None = peek.after_lane
        for _ in range(MOST_LOOKS_AT_LANES):
            rows = self._run.rows(
                "slots.lanes",
                after=after,
                names=list(peek.lane_names),
                queues=_listed(peek.queues),
                shut=list(peek.shut_queues),
                most=LANES,
            )
            found += [Candidate(*row) for _, *row in rows if row[0] is not None]
            after = rows[0][0]
            if after is None or len(found) >= peek.limit:
                break
        return Peeked(found, after or "")

    def _strays(self, peek: Peek) -> list[Candidate]:
        rows = self._run.rows(
            "slots.strays",
            names=list(peek.lane_names),
            queues=_listed(peek.queues),
            shut=list(peek.shut_queues),
            limit=peek.limit,
        )
        return [Candidate(*row) for row in rows]


def _listed(queues: tuple[str, ...] | None) -> list[str] | None:
    return None if queues is None else list(queues)


def _slot(row: Sequence[Any]) -> Slot:
    id_, token, name, number = row
    return Slot(id_, token, name, number, is_held=not name.startswith("rate:"))
