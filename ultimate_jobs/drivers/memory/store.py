"""What the memory driver holds, under one lock, and the acts its verbs share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from threading import RLock
from typing import Any
from uuid import UUID

from ultimate_jobs import conf
from ultimate_jobs.clock import Clock, to_datetime
from ultimate_jobs.drivers.memory.rows import Lease, Row, SlotRow, Triple, row_of
from ultimate_jobs.records import EventRecord
from ultimate_jobs.states import JobState
from ultimate_jobs.types import EnqueueRequest


class Store:
    """The rows, the live ones by their key, the events and the leases.

    Whoever reads or writes holds ``lock``; a verb takes it once, for the whole list.
    """

    def __init__(
        self, clock: Clock, *, lease_ttl_ms: int | None, max_lost_leases: int | None
    ) -> None:
        self.lock = RLock()
        self.now = clock
        self._lease_ttl_ms = lease_ttl_ms
        self._max_lost_leases = max_lost_leases
        self._event_ids = itertools.count(1)
        self.rows: dict[UUID, Row] = {}
        self.live: dict[Triple, Row] = {}
        self.leases: dict[UUID, Lease] = {}
        self.slots: dict[tuple[str, int], SlotRow] = {}
        self._slot_tokens = itertools.count(1)
        self._events: dict[UUID, list[EventRecord]] = {}
        self.paused: dict[str, tuple[int, str]] = {}
        self.duties: dict[str, tuple[UUID, int]] = {}

    @property
    def lease_ttl_ms(self) -> int:
        if self._lease_ttl_ms is None:
            return conf.settings().lease_ttl_ms
        return self._lease_ttl_ms

    @property
    def max_lost_leases(self) -> int:
        if self._max_lost_leases is None:
            return conf.settings().max_lost_leases
        return self._max_lost_leases

    def clear(self) -> None:
        """Forget everything."""
        with self.lock:
            for shelf in (self.rows, self.live, self.leases, self._events):
                shelf.clear()
            self.paused.clear()
            self.duties.clear()
            self.slots.clear()

    def insert(self, request: EnqueueRequest, *, run_at: int, now: int) -> Row:
        """Store a request whose key is free."""
        row = row_of(request, run_at=run_at, now=now)
        self.rows[row.id] = self.live[row.triple] = row
        return row

    def claimed(self, job_id: UUID, *, worker: UUID, token: int) -> Row | None:
        """Return the running job of this very claim, or ``None`` where the claim was lost."""
        row = self.rows.get(job_id)
        if row is None or row.state is not JobState.RUNNING:
            return None
        return row if (row.worker, row.token) == (worker, token) else None

    def finish(self, row: Row, state: JobState, *, now: int) -> None:
        """End a job: its key is free again, and its one follow-up takes it in the same act."""
        row.state = state
        row.finished_at = row.updated_at = now
        del self.live[row.triple]
        if row.rerun is not None:
            follow_up = self.insert(row.rerun.request, run_at=row.rerun.run_at, now=now)
            detail = {"job_id": str(follow_up.id)}
            self.record(row, "rerun", now=now, detail=detail, worker=row.worker)

    def forget(self, row: Row) -> None:
        """Remove a final job with its history."""
        del self.rows[row.id]
        self._events.pop(row.id, None)

    def give_back(self, row: Row, state: JobState, *, now: int) -> None:
        """Return a running job to those that wait."""
        row.state = state
        row.worker = None
        row.updated_at = now

    def revive(self, row: Row, *, now: int) -> None:
        """Make a final job live again; its token goes on growing, so that old claims stay lost."""
        row.state = JobState.READY
        row.attempt = row.lost_leases = row.deferrals = 0
        row.retry_count += 1
        row.run_at = row.due_at = row.updated_at = now
        row.finished_at = row.cancel_requested_at = row.claimed_at = None
        row.worker = row.rerun = None
        self.live[row.triple] = row

    def next_slot_token(self) -> int:
        """Return a number for one taking of a slot."""
        return next(self._slot_tokens)

    def slots_of(self, worker: UUID) -> list[SlotRow]:
        """Return the slots that a worker holds, the expired ones included."""
        return [slot for slot in self.slots.values() if slot.holder == worker]

    def first_of_lane(self, row: Row, now: int) -> Row | None:
        """Return the first live job with the row's serial key, but for those not yet due."""
        if row.serial_key is None:
            return None
        lane = (
            other
            for other in self.live.values()
            if other.serial_key == row.serial_key
            and not (other.state is JobState.DELAYED and other.run_at > now)
        )
        return min(lane, key=lambda other: (other.created_at, other.id), default=None)

    def is_first_of_its_lane(self, row: Row, now: int) -> bool:
        """Say whether no live job with the same serial key came before, but those not yet due."""
        first = self.first_of_lane(row, now)
        return first is None or (row.created_at, row.id) <= (first.created_at, first.id)

    def running_of(self, worker: UUID) -> list[Row]:
        """Return the jobs that run under a worker."""
        return [row for row in self._running() if row.worker == worker]

    def abandoned(self, *, now: int) -> list[Row]:
        """Return the running jobs whose worker holds no lease that still stands, oldest first."""
        standing = {worker for worker, lease in self.leases.items() if not lease.is_expired(now)}
        return sorted(
            (row for row in self._running() if row.worker not in standing),
            key=lambda row: (row.claimed_at, row.id),
        )

    def _running(self) -> Iterator[Row]:
        return (row for row in self.live.values() if row.state is JobState.RUNNING)

    def record(
        self,
        row: Row,
        event: str,
        *,
        now: int,
        detail: dict[str, Any] | None = None,
        worker: UUID | None = None,
    ) -> None:
        """Add one row to a run's history."""
        self._events.setdefault(row.id, []).append(
            EventRecord(
                id=next(self._event_ids),
                job_id=row.id,
                run_id=row.run_id,
                type=event,
                attempt=row.attempt,
                at=to_datetime(now),
                worker=worker,
                detail=detail or {},
            )
        )

    def events_of(self, job_id: UUID) -> list[EventRecord]:
        """Return a run's history; the details are copies, for nobody may change what happened."""
        return [replace(event, detail=dict(event.detail)) for event in self._events.get(job_id, [])]
