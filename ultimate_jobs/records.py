"""Frozen records that screens read: stored rows, and what is counted of them.

Instants are aware datetimes, JSON travels as text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from ultimate_jobs.states import JobState
from ultimate_jobs.types import ANY_TENANT, TenantScope


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A worker's lease as screens show it."""

    worker: UUID
    started_at: datetime
    renewed_at: datetime
    expires_at: datetime
    expired: bool
    running: int
    info: dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A whole stored job, for screens; ``payload`` and ``result`` are JSON text."""

    id: UUID
    run_id: UUID
    name: str
    queue: str
    tenant: str | None
    key: str
    payload: str
    result: str | None
    state: JobState
    priority: int
    attempt: int
    max_attempts: int
    lost_leases: int
    retry_count: int
    run_at: datetime
    due_at: datetime
    created_at: datetime
    updated_at: datetime
    claimed_at: datetime | None
    finished_at: datetime | None
    cancel_requested_at: datetime | None
    worker: UUID | None
    token: int
    last_error: str | None
    enqueued_by: str | None
    traceparent: str | None
    rerun_requested: bool = False
    deferrals: int = 0
    serial_key: str | None = None


@dataclass(frozen=True, slots=True)
class UnreadableJob:
    """A row that this release cannot decode, shown as such so that a list never fails whole."""

    id: UUID
    name: str
    error: str


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; an unset field does not restrict.

    Attributes:
        before: only jobs with a smaller id, for the next page (newest first).
    """

    tenant: TenantScope = ANY_TENANT
    states: tuple[str, ...] = ()
    queue: str | None = None
    name: str | None = None
    key: str | None = None
    before: UUID | None = None


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One row of a run's history."""

    id: int
    job_id: UUID
    run_id: UUID
    type: str
    attempt: int
    at: datetime
    worker: UUID | None
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Counts of one queue; ``estimated`` says that a count reached the cap and is a lower bound.

    Attributes:
        depth: live, not running, and owed now.
        scheduled: live, not running, owed in the future.
        oldest_ready_seconds: age of the oldest owed job; ``None`` where the depth is 0.
        unknown: owed jobs whose name no live worker knows.
    """

    queue: str
    depth: int
    scheduled: int
    running: int
    dead: int
    unknown: int
    oldest_ready_seconds: float | None
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class QueueState:
    """Whether a queue is paused; ``changed`` says whether this very call made it so."""

    queue: str
    paused_at: datetime | None = None
    paused_by: str | None = None
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Pruned:
    """What one batch of retention removed; ``last`` is where to go on, ``None`` at the end."""

    completed: int = 0
    cancelled: int = 0
    dead: int = 0
    events: int = 0
    steps: int = 0
    last: UUID | None = None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A stored step; ``output`` is JSON text."""

    run_id: UUID
    name: str
    nth: int
    position: int
    status: str
    output: str | None
    attempts: int
    started_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class BackfillRecord:
    """A stored pass of the backfill ledger."""

    id: UUID
    name: str
    status: str
    checksum: str
    app_version: str
    environment: str
    rows_processed: int
    started_at: datetime
    finished_at: datetime | None
