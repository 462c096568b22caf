"""Removing finished jobs in memory, by the same rules as in a database."""

from __future__ import annotations

import heapq
from uuid import UUID

from ultimate_jobs.clock import to_epoch_ms
from ultimate_jobs.conf import RETENTION_FLOOR_MS, RetentionOptions
from ultimate_jobs.drivers.memory.rows import Row
from ultimate_jobs.drivers.memory.store import Store
from ultimate_jobs.records import Pruned
from ultimate_jobs.states import JobState


class MemoryRetention:
    """Walks the rows by id, from a cursor."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def prune(self, keep: RetentionOptions, *, after: UUID, through: UUID, limit: int) -> Pruned:
        with self._store.lock:
            passed, old = self._batch(keep, after, through, limit)
            answer = self._answer(passed, old, limit)
            for row in old:
                self._store.forget(row)
            return answer

    def survey(self, keep: RetentionOptions, *, after: UUID, through: UUID, limit: int) -> Pruned:
        with self._store.lock:
            passed, old = self._batch(keep, after, through, limit)
            return self._answer(passed, old, limit)

    def _batch(
        self, keep: RetentionOptions, after: UUID, through: UUID, limit: int
    ) -> tuple[list[Row], list[Row]]:
        now = self._store.now()
        near = (row for row in self._store.rows.values() if after < row.id <= through)
        passed = heapq.nsmallest(limit, near, key=lambda row: row.id)
        return passed, [row for row in passed if self._is_old(row, keep, now)]

    def _is_old(self, row: Row, keep: RetentionOptions, now: int) -> bool:
        periods = {
            JobState.COMPLETED: keep.completed_ms,
            JobState.CANCELLED: keep.cancelled_ms,
            JobState.DEAD: keep.dead_ms,
        }
        period = periods.get(row.state)
        if period is None or (row.finished_at or row.updated_at) >= now - period:
            return False
        floor = now - RETENTION_FLOOR_MS
        return all(to_epoch_ms(one.at) <= floor for one in self._store.events_of(row.id))

    def _answer(self, passed: list[Row], old: list[Row], limit: int) -> Pruned:
        counts = {state: sum(row.state is state for row in old) for state in JobState}
        return Pruned(
            completed=counts[JobState.COMPLETED],
            cancelled=counts[JobState.CANCELLED],
            dead=counts[JobState.DEAD],
            events=sum(len(self._store.events_of(row.id)) for row in old),
            steps=0,
            last=passed[-1].id if len(passed) == limit else None,
        )
