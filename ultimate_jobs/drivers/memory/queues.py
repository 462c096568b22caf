"""What is said of a queue in memory, and how many jobs wait in it."""

from __future__ import annotations

from collections.abc import Sequence

from ultimate_jobs.clock import to_datetime
from ultimate_jobs.drivers.memory.rows import Row
from ultimate_jobs.drivers.memory.store import Store
from ultimate_jobs.records import QueueState
from ultimate_jobs.states import WAITING, JobState
from ultimate_jobs.types import EnqueueRequest


class MemoryQueues:
    """Pauses stand in the store, where a claim looks."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def pause(self, queue: str, *, by: str) -> QueueState:
        with self._store.lock:
            changed = queue not in self._store.paused
            since, who = self._store.paused.setdefault(queue, (self._store.now(), by))
            return QueueState(queue, to_datetime(since), who, changed=changed)

    def resume(self, queue: str) -> QueueState:
        with self._store.lock:
            return QueueState(queue, changed=self._store.paused.pop(queue, None) is not None)

    def paused(self) -> list[QueueState]:
        with self._store.lock:
            return [
                QueueState(queue, to_datetime(since), by)
                for queue, (since, by) in sorted(self._store.paused.items())
            ]

    def depth(self, queue: str, *, cap: int) -> int:
        with self._store.lock:
            now = self._store.now()
            rows = (row for row in self._store.live.values() if row.queue == queue)
            return min(cap, sum(_waits(row, now) for row in rows))

    def held(self, requests: Sequence[EnqueueRequest]) -> list[bool]:
        with self._store.lock:
            return [(one.name, one.tenant or "", one.key) in self._store.live for one in requests]


def _waits(row: Row, now: int) -> bool:
    return row.state is JobState.READY or (row.state in WAITING and row.run_at <= now)
