"""What is said of a queue on PostgreSQL, and how many jobs wait in it."""

from __future__ import annotations

from collections.abc import Sequence

from ultimate_jobs.drivers.postgres.statements import Statements
from ultimate_jobs.records import QueueState
from ultimate_jobs.types import EnqueueRequest


class PostgresQueues:
    """Writes in whatever transaction the calling thread has open on the queue's alias."""

    def __init__(self, alias: str) -> None:
        self._run = Statements(alias)

    def pause(self, queue: str, *, by: str) -> QueueState:
        for paused_at, paused_by in self._run.rows("pauses.pause", queue=queue, by=by):
            return QueueState(queue, paused_at, paused_by, changed=True)
        # Nothing was written: it was paused before, or by somebody in this very moment.
        return next((one for one in self.paused() if one.queue == queue), QueueState(queue))

    def resume(self, queue: str) -> QueueState:
        return QueueState(queue, changed=bool(self._run.rows("pauses.resume", queue=queue)))

    def paused(self) -> list[QueueState]:
        return [QueueState(*row) for row in self._run.rows("pauses.paused")]

    def depth(self, queue: str, *, cap: int) -> int:
        count: int = self._run.rows("depth.waiting", queue=queue, cap=cap)[0][0]
        return count

    def held(self, requests: Sequence[EnqueueRequest]) -> list[bool]:
        places = {
            place
            for (place,) in self._run.rows(
                "depth.held",
                names=[one.name for one in requests],
                tenants=[one.tenant or "" for one in requests],
                keys=[one.key for one in requests],
            )
        }
        return [place in places for place in range(1, len(requests) + 1)]
