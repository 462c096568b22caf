"""Reading the jobs in memory, counting them, and bringing a finished one back."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from ultimate_jobs.clock import to_datetime
from ultimate_jobs.drivers.memory.rows import Row, record_of
from ultimate_jobs.drivers.memory.store import Store
from ultimate_jobs.errors import JobDuplicate, JobNotFound, JobStateRefused
from ultimate_jobs.records import EventRecord, JobFilter, JobRecord, QueueStats, UnreadableJob
from ultimate_jobs.states import LIVE, RETRYABLE, WAITING, JobState
from ultimate_jobs.types import TenantScope


class MemoryIntrospection:
    """What screens and operators ask."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def now(self) -> datetime:
        return to_datetime(self._store.now())

    def get(self, job_id: UUID, *, tenant: TenantScope) -> JobRecord | None:
        with self._store.lock:
            row = self._visible(job_id, tenant)
            return None if row is None else record_of(row)

    def find(self, criteria: JobFilter, *, limit: int) -> list[JobRecord | UnreadableJob]:
        with self._store.lock:
            matching = (row for row in self._store.rows.values() if _matches(row, criteria))
            return [record_of(row) for row in heapq.nlargest(limit, matching, key=lambda r: r.id)]

    def events(self, job_id: UUID) -> list[EventRecord]:
        with self._store.lock:
            return self._store.events_of(job_id)

    def stats(self) -> list[QueueStats]:
        with self._store.lock:
            now = self._store.now()
            known = self._known_names(now)
            return [
                _count(queue, rows, known=known, now=now)
                for queue, rows in sorted(self._counted_by_queue().items())
            ]

    def retry(
        self, job_id: UUID, *, tenant: TenantScope, by: str, fresh_run_id: UUID | None
    ) -> JobRecord:
        with self._store.lock:
            row = self._retryable(job_id, tenant, is_fresh=fresh_run_id is not None)
            now, old_state = self._store.now(), row.state
            self._store.revive(row, now=now)
            if fresh_run_id is not None:
                row.run_id, row.result = fresh_run_id, None
            detail = {"by": by, "fresh": fresh_run_id is not None, "from": old_state.value}
            self._store.record(row, "retried", now=now, detail=detail)
            return record_of(row)

    def _visible(self, job_id: UUID, tenant: TenantScope) -> Row | None:
        row = self._store.rows.get(job_id)
        return row if row is not None and row.is_within(tenant) else None

    def _retryable(self, job_id: UUID, tenant: TenantScope, *, is_fresh: bool) -> Row:
        row = self._visible(job_id, tenant)
        if row is None:
            raise JobNotFound(job_id=job_id)
        allowed = (*RETRYABLE, JobState.COMPLETED) if is_fresh else RETRYABLE
        if row.state not in allowed:
            raise JobStateRefused(job_id=job_id, state=row.state, verb="retry", allowed=allowed)
        holder = self._store.live.get(row.triple)
        if holder is not None:
            raise JobDuplicate(job=row.name, job_id=holder.id, state=holder.state)
        return row

    def _known_names(self, now: int) -> frozenset[str]:
        return frozenset(
            name
            for lease in self._store.leases.values()
            if not lease.is_expired(now)
            for name in lease.card.names
        )

    def _counted_by_queue(self) -> dict[str, list[Row]]:
        queues: dict[str, list[Row]] = {}
        for row in self._store.rows.values():
            if row.state in LIVE or row.state is JobState.DEAD:
                queues.setdefault(row.queue, []).append(row)
        return queues


def _matches(row: Row, criteria: JobFilter) -> bool:
    return (
        row.is_within(criteria.tenant)
        and (not criteria.states or row.state in criteria.states)
        and criteria.queue in (None, row.queue)
        and criteria.name in (None, row.name)
        and criteria.key in (None, row.key)
        and (criteria.before is None or row.id < criteria.before)
    )


def _count(queue: str, rows: list[Row], *, known: frozenset[str], now: int) -> QueueStats:
    waiting = [row for row in rows if row.state in WAITING]
    owed = [row for row in waiting if row.due_at <= now]
    return QueueStats(
        queue=queue,
        depth=len(owed),
        scheduled=len(waiting) - len(owed),
        running=_in_state(rows, JobState.RUNNING),
        dead=_in_state(rows, JobState.DEAD),
        unknown=sum(row.name not in known for row in owed),
        oldest_ready_seconds=(now - min(row.due_at for row in owed)) / 1000 if owed else None,
    )


def _in_state(rows: Iterable[Row], state: JobState) -> int:
    return sum(row.state is state for row in rows)
