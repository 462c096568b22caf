"""What the memory driver keeps, in epoch milliseconds, and how it becomes a record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ultimate_jobs.clock import to_datetime
from ultimate_jobs.records import JobRecord, WorkerRecord
from ultimate_jobs.states import JobState
from ultimate_jobs.types import ANY_TENANT, Claim, EnqueueRequest, TenantScope, WorkerCard

Triple = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Rerun:
    """The one follow-up of a running job."""

    request: EnqueueRequest
    run_at: int


@dataclass(slots=True)
class SlotRow:
    """One taken slot of a limit, or one start that still counts."""

    name: str
    number: int
    holder: UUID
    job: UUID
    token: int
    expires_at: int


@dataclass(slots=True)
class Row:
    """One stored job."""

    id: UUID
    run_id: UUID
    name: str
    queue: str
    tenant: str | None
    key: str
    payload: str
    priority: int
    max_attempts: int
    state: JobState
    run_at: int
    due_at: int
    created_at: int
    updated_at: int
    enqueued_by: str | None
    traceparent: str | None
    serial_key: str | None = None
    attempt: int = 0
    token: int = 0
    lost_leases: int = 0
    deferrals: int = 0
    retry_count: int = 0
    claimed_at: int | None = None
    finished_at: int | None = None
    cancel_requested_at: int | None = None
    worker: UUID | None = None
    result: str | None = None
    last_error: str | None = None
    rerun: Rerun | None = None

    @property
    def triple(self) -> Triple:
        """Return the namespace of the key, spelled as the database's unique index spells it."""
        return (self.name, self.tenant or "", self.key)

    def is_within(self, tenant: TenantScope) -> bool:
        """Say whether a caller of this tenant may see the job at all."""
        return tenant is ANY_TENANT or self.tenant == (tenant or None)

    def take_attempt_back(self) -> None:
        """Undo the attempt of the claim at hand; never below 0."""
        self.attempt = max(self.attempt - 1, 0)


@dataclass(slots=True)
class Lease:
    """A worker's time-limited right to the jobs it claimed."""

    card: WorkerCard
    started_at: int
    renewed_at: int
    expires_at: int

    def is_expired(self, now: int) -> bool:
        return self.expires_at <= now


def row_of(request: EnqueueRequest, *, run_at: int, now: int) -> Row:
    """Return the new row of a request; a start that has passed is now."""
    start = max(now, run_at)
    return Row(
        id=request.id,
        run_id=request.run_id,
        name=request.name,
        queue=request.queue,
        tenant=request.tenant or None,
        key=request.key,
        payload=request.payload,
        priority=request.priority,
        max_attempts=request.max_attempts,
        state=JobState.DELAYED if start > now else JobState.READY,
        run_at=start,
        due_at=start,
        created_at=now,
        updated_at=now,
        enqueued_by=request.enqueued_by,
        traceparent=request.traceparent,
        serial_key=request.serial_key,
    )


def claim_of(row: Row, *, worker: UUID) -> Claim:
    """Return a row that was just claimed as what its worker gets."""
    return Claim(
        id=row.id,
        run_id=row.run_id,
        name=row.name,
        queue=row.queue,
        tenant=row.tenant,
        key=row.key,
        payload=row.payload,
        worker=worker,
        token=row.token,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        lost_leases=row.lost_leases,
        retry_count=row.retry_count,
        priority=row.priority,
        due_at=to_datetime(row.due_at),
        traceparent=row.traceparent,
    )


def record_of(row: Row) -> JobRecord:
    """Return a row as screens get it."""
    return JobRecord(
        id=row.id,
        run_id=row.run_id,
        name=row.name,
        queue=row.queue,
        tenant=row.tenant,
        key=row.key,
        payload=row.payload,
        result=row.result,
        state=row.state,
        priority=row.priority,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        lost_leases=row.lost_leases,
        retry_count=row.retry_count,
        run_at=to_datetime(row.run_at),
        due_at=to_datetime(row.due_at),
        created_at=to_datetime(row.created_at),
        updated_at=to_datetime(row.updated_at),
        claimed_at=_instant(row.claimed_at),
        finished_at=_instant(row.finished_at),
        cancel_requested_at=_instant(row.cancel_requested_at),
        worker=row.worker,
        token=row.token,
        last_error=row.last_error,
        enqueued_by=row.enqueued_by,
        traceparent=row.traceparent,
        rerun_requested=row.rerun is not None,
        deferrals=row.deferrals,
        serial_key=row.serial_key,
    )


def worker_of(lease: Lease, *, running: int, now: int) -> WorkerRecord:
    """Return a worker's lease as screens get it."""
    card = lease.card
    return WorkerRecord(
        worker=card.worker,
        started_at=to_datetime(lease.started_at),
        renewed_at=to_datetime(lease.renewed_at),
        expires_at=to_datetime(lease.expires_at),
        expired=lease.is_expired(now),
        running=running,
        info={
            "names": list(card.names),
            "queues": None if card.queues is None else list(card.queues),
            "hostname": card.hostname,
            "pid": card.pid,
            "threads": card.threads,
            "app_version": card.app_version,
        },
    )


def _instant(epoch_ms: int | None) -> datetime | None:
    return None if epoch_ms is None else to_datetime(epoch_ms)
