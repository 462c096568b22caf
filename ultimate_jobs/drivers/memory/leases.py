"""The leases of worker processes in memory: taken, renewed, given back, and rescued from."""

from __future__ import annotations

from uuid import UUID

from ultimate_jobs.drivers.memory.rows import Lease, Row, worker_of
from ultimate_jobs.drivers.memory.store import Store
from ultimate_jobs.errors import WorkerGone
from ultimate_jobs.records import WorkerRecord
from ultimate_jobs.states import JobState
from ultimate_jobs.types import HeartbeatAnswer, Rescue, WorkerCard

LONGEST_RESCUE_DELAY_MS = 60_000


class MemoryLeases:
    """One lease per worker process."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def register(self, card: WorkerCard) -> None:
        with self._store.lock:
            now = self._store.now()
            self._store.leases[card.worker] = Lease(card, now, now, now + self._store.lease_ttl_ms)

    def heartbeat(self, worker: UUID) -> HeartbeatAnswer:
        with self._store.lock:
            if not self._renew(worker):
                return HeartbeatAnswer(alive=False)
            running = self._store.running_of(worker)
            asked = frozenset(row.id for row in running if row.cancel_requested_at is not None)
            return HeartbeatAnswer(alive=True, cancel_requested=asked)

    def release(self, worker: UUID) -> None:
        with self._store.lock:
            self._store.leases.pop(worker, None)
            for slot in self._store.slots_of(worker):
                del self._store.slots[slot.name, slot.number]

    def claims(self, worker: UUID) -> list[tuple[UUID, int]]:
        with self._store.lock:
            return [(row.id, row.token) for row in self._store.running_of(worker)]

    def rescue(self, *, limit: int) -> list[Rescue]:
        with self._store.lock:
            now = self._store.now()
            rescued = [self._rescue(row, now) for row in self._store.abandoned(now=now)[:limit]]
            # Only after the jobs: what an expired worker still runs must stay tied to its lease.
            self._remove_spent(now)
            return rescued

    def workers(self) -> list[WorkerRecord]:
        with self._store.lock:
            now = self._store.now()
            return [
                worker_of(lease, running=len(self._store.running_of(worker)), now=now)
                for worker, lease in self._store.leases.items()
            ]

    def take_duty(self, name: str, holder: UUID, *, ttl_ms: int) -> bool:
        with self._store.lock:
            now = self._store.now()
            present, expires_at = self._store.duties.get(name, (holder, now))
            if present != holder and expires_at > now:
                return False
            self._store.duties[name] = (holder, now + ttl_ms)
            return True

    def _renew(self, worker: UUID) -> bool:
        now = self._store.now()
        lease = self._store.leases.get(worker)
        if lease is None or lease.is_expired(now):
            return False
        lease.renewed_at = now
        lease.expires_at = now + self._store.lease_ttl_ms
        for slot in self._store.slots_of(worker):
            if slot.expires_at > now:
                slot.expires_at = lease.expires_at
        return True

    def _rescue(self, row: Row, now: int) -> Rescue:
        lost_worker, lost_token = row.worker, row.token
        row.lost_leases += 1
        if row.cancel_requested_at is not None:
            self._store.record(row, "cancelled", now=now, worker=lost_worker)
            self._store.finish(row, JobState.CANCELLED, now=now)
        elif row.lost_leases >= self._store.max_lost_leases:
            self._bury(row, now)
        else:
            self._return(row, now)
        row.take_attempt_back()
        return Rescue(row.id, row.name, lost_worker, lost_token, row.lost_leases, row.state)

    def _bury(self, row: Row, now: int) -> None:
        cause = WorkerGone(job_id=row.id, lost_leases=row.lost_leases).cause
        row.last_error = f"{WorkerGone.code}: {cause}"
        detail = {"error_class": WorkerGone.code, "message": cause, "traceback": ""}
        self._store.record(row, "dead", now=now, detail=detail, worker=row.worker)
        self._store.finish(row, JobState.DEAD, now=now)

    def _return(self, row: Row, now: int) -> None:
        delay_ms = _rescue_delay_ms(row.lost_leases)
        detail = {"lost_leases": row.lost_leases, "delay_ms": delay_ms, "token": row.token}
        self._store.record(row, "rescued", now=now, detail=detail, worker=row.worker)
        self._store.give_back(row, JobState.READY, now=now)
        row.run_at = now + delay_ms
        if delay_ms:
            row.due_at = row.run_at

    def _remove_spent(self, now: int) -> None:
        for worker, lease in list(self._store.leases.items()):
            if lease.is_expired(now) and not self._store.running_of(worker):
                del self._store.leases[worker]
        for slot in list(self._store.slots.values()):
            if slot.expires_at <= now:
                del self._store.slots[slot.name, slot.number]


def _rescue_delay_ms(lost_leases: int) -> int:
    # A first loss is most likely a deploy or a crash elsewhere; only a repeated one is suspect.
    if lost_leases <= 1:
        return 0
    return min(LONGEST_RESCUE_DELAY_MS, 1000 << (lost_leases - 1))
