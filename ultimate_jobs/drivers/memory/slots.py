"""Limit slots in memory, and the claims of jobs that need some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from uuid import UUID

from ultimate_jobs.clock import to_datetime
from ultimate_jobs.drivers.memory.jobs import MemoryJobs
from ultimate_jobs.drivers.memory.rows import Row, SlotRow
from ultimate_jobs.drivers.memory.store import Store
from ultimate_jobs.limits import Scope
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
from ultimate_jobs.states import WAITING
from ultimate_jobs.types import Claim, Nack


class MemorySlots:
    """A slot stands in the store until it expires; the worker's heartbeat renews it."""

    def __init__(self, store: Store, jobs: MemoryJobs) -> None:
        self._store = store
        self._jobs = jobs

    def take(self, worker: UUID, needs: Sequence[SlotNeed]) -> Held:
        with self._store.lock:
            held: Held = {}
            for need in needs:
                if all(self._has_room(scope) for scope in need.scopes):
                    held[need.job] = tuple(
                        self._take(worker, need.job, scope) for scope in need.scopes
                    )
            return held

    def release(self, slots: Sequence[Slot]) -> None:
        with self._store.lock:
            for slot in slots:
                row = self._store.slots.get((slot.name, slot.number))
                if slot.is_held and row is not None and row.token == slot.token:
                    del self._store.slots[slot.name, slot.number]

    def used(self, names: Sequence[str]) -> dict[str, int]:
        with self._store.lock:
            return dict(Counter(row.name for row in self._valid() if row.name in names))

    def held_by(self, worker: UUID) -> list[Slot]:
        with self._store.lock:
            rows = [row for row in self._valid() if row.holder == worker]
            return [Slot(row.token, row.token, row.name, row.number) for row in rows]

    def holders(self, names: Sequence[str]) -> list[SlotHolder]:
        with self._store.lock:
            return [
                SlotHolder(row.name, row.number, row.job, to_datetime(row.expires_at))
                for row in sorted(self._valid(), key=lambda row: (row.name, row.token))
                if row.name in names
            ]

    def obstacles(self, job: UUID) -> tuple[bool, UUID | None]:
        with self._store.lock:
            row = self._store.rows.get(job)
            first = None if row is None else self._store.first_of_lane(row, self._store.now())
            return False, None if first is None or first.id == job else first.id

    def peek(self, peek: Peek) -> Peeked:
        with self._store.lock:
            now = self._store.now()
            waiting = [
                row
                for row in self._store.live.values()
                if _is_due(row, peek, now) and row.queue not in self._store.paused
            ]
            found = [row for row in waiting if row.name in peek.names]
            found += [
                row
                for row in waiting
                if row.name in peek.lane_names and self._may_start(row, peek, now)
            ]
            found.sort(key=lambda row: (-row.priority, row.due_at, row.id))
            return Peeked([_candidate(row) for row in found])

    def claim(self, worker: UUID, needs: Sequence[SlotNeed]) -> LimitedClaims:
        with self._store.lock:
            now, claimed = self._store.now(), LimitedClaims()
            for need in needs:
                row = self._store.rows.get(need.job)
                if row is None or row.state not in WAITING or row.run_at > now:
                    continue
                if not self._store.is_first_of_its_lane(row, now):
                    continue
                held = self.take(worker, [need])
                if held:
                    claimed.claims.append(self._jobs.claim_row(row, worker, now))
                    claimed.slots.update(held)
            return claimed

    def claim_and_shed(
        self,
        worker: UUID,
        claim: Callable[[], list[Claim]],
        choose: Callable[[list[Claim]], list[SlotNeed]],
        *,
        delay_ms: int,
    ) -> tuple[LimitedClaims, list[Claim]]:
        with self._store.lock:
            claims, now = claim(), self._store.now()
            first = [
                one
                for one in claims
                if self._store.is_first_of_its_lane(self._store.rows[one.id], now)
            ]
            held = self.take(worker, choose(first))
            shed = [one for one in claims if one.id not in held]
            nacks = [
                Nack(one.id, one.token, counts_as_attempt=False, delay_ms=delay_ms) for one in shed
            ]
            self._jobs.nack(worker, nacks)
            return LimitedClaims([one for one in claims if one.id in held], held), shed

    def _has_room(self, scope: Scope) -> bool:
        return sum(row.name == scope.name for row in self._valid()) < scope.most

    def _take(self, worker: UUID, job: UUID, scope: Scope) -> Slot:
        now = self._store.now()
        taken = {row.number for row in self._valid() if row.name == scope.name}
        number = next(number for number in range(scope.most) if number not in taken)
        token = self._store.next_slot_token()
        self._store.slots[scope.name, number] = SlotRow(
            name=scope.name,
            number=number,
            # A counted start is no worker's: neither a heartbeat nor an end may touch it.
            holder=job if scope.period_ms else worker,
            job=job,
            token=token,
            expires_at=now + (scope.period_ms or self._store.lease_ttl_ms),
        )
        return Slot(token, token, scope.name, number, is_held=scope.period_ms is None)

    def _valid(self) -> list[SlotRow]:
        now = self._store.now()
        return [row for row in self._store.slots.values() if row.expires_at > now]

    def _may_start(self, row: Row, peek: Peek, now: int) -> bool:
        if row.serial_key is None:
            return peek.with_strays
        return self._store.is_first_of_its_lane(row, now)


def _is_due(row: Row, peek: Peek, now: int) -> bool:
    in_queue = peek.queues is None or row.queue in peek.queues
    return (
        row.state in WAITING
        and row.run_at <= now
        and in_queue
        and row.queue not in peek.shut_queues
    )


def _candidate(row: Row) -> Candidate:
    return Candidate(
        id=row.id,
        name=row.name,
        queue=row.queue,
        tenant=row.tenant,
        priority=row.priority,
        due_at=to_datetime(row.due_at),
        serial_key=row.serial_key,
        payload=row.payload,
    )
