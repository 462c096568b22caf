"""The protocol every driver implements: six verbs over lists, and capability objects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Protocol
from uuid import UUID

from ultimate_jobs.types import (
    CancelAnswer,
    Claim,
    ClaimRequest,
    Completion,
    EnqueueAnswer,
    EnqueueRequest,
    EventRecord,
    HeartbeatAnswer,
    JobFilter,
    JobRecord,
    Nack,
    OnConflict,
    QueueStats,
    Rescue,
    TenantScope,
    UnreadableJob,
    WorkerCard,
    WorkerRecord,
    WriteAnswer,
)


class Driver(Protocol):
    """Where jobs are kept.

    Every verb takes and returns lists in the same order and touches nothing it does not name.
    A verb raises errors of ``ultimate_jobs.errors``, or the database's own ``OperationalError``.
    """

    name: ClassVar[str]
    supports_introspection: ClassVar[bool]
    supports_leases: ClassVar[bool]
    supports_steps: ClassVar[bool]
    supports_outbox: ClassVar[bool]
    supports_backfills: ClassVar[bool]
    supports_tasks: ClassVar[bool]
    supports_processes: ClassVar[bool]

    @property
    def alias(self) -> str | None:
        """The database alias that holds the jobs; ``None`` where no database does."""
        ...

    @property
    def introspection(self) -> Introspection: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def outbox(self) -> Outbox: ...

    def enqueue(
        self, requests: Sequence[EnqueueRequest], *, on_conflict: OnConflict
    ) -> list[EnqueueAnswer]:
        """Store each request whose key is free among live jobs; answer for the holder otherwise.

        Raises:
            JobDuplicate: with ``OnConflict.ERROR``; nothing of the list is stored.
            EnqueueSerialization: above READ COMMITTED; the caller's transaction stays usable.
        """
        ...

    def claim(self, request: ClaimRequest) -> list[Claim]:
        """Take at most ``limit`` due jobs: by priority, then due time, then id."""
        ...

    def ack(self, worker: UUID, completions: Sequence[Completion]) -> list[WriteAnswer]:
        """Complete claims, each matched on worker and token."""
        ...

    def nack(self, worker: UUID, nacks: Sequence[Nack]) -> list[WriteAnswer]:
        """Give claims back, each matched on worker and token."""
        ...

    def heartbeat(self, worker: UUID) -> HeartbeatAnswer:
        """Renew every lease of the worker at once; an expired one is never revived."""
        ...

    def cancel(self, ids: Sequence[UUID], *, tenant: TenantScope, by: str) -> list[CancelAnswer]:
        """End waiting jobs as ``cancelled``, ask running ones to stop."""
        ...

    def at(self, alias: str) -> Driver:
        """Return a driver over another database alias.

        Raises:
            DriverUnsupported: the jobs are in no database.
        """
        ...

    def close(self) -> None:
        """Release what the driver holds."""
        ...


class Introspection(Protocol):
    """Reading jobs, and bringing a finished one back."""

    def now(self) -> datetime:
        """Return the driver's own now, by which it decides what is due."""
        ...

    def get(self, job_id: UUID, *, tenant: TenantScope) -> JobRecord | None:
        """Return one job, or ``None`` where the tenant has no such id."""
        ...

    def find(self, criteria: JobFilter, *, limit: int) -> list[JobRecord | UnreadableJob]:
        """Return the newest matching jobs, newest first."""
        ...

    def events(self, job_id: UUID) -> list[EventRecord]:
        """Return a job's history, oldest first."""
        ...

    def stats(self) -> list[QueueStats]:
        """Return one record per queue that holds live or dead jobs."""
        ...

    def retry(
        self, job_id: UUID, *, tenant: TenantScope, by: str, fresh_run_id: UUID | None
    ) -> JobRecord:
        """Bring a finished job back to ``ready``.

        Args:
            fresh_run_id: with one, the run starts anew under it, and a completed job may.

        Raises:
            JobNotFound, JobStateRefused, JobDuplicate: nothing was changed.
        """
        ...


class Leases(Protocol):
    """The rights that expire: one per worker process."""

    def register(self, card: WorkerCard) -> None:
        """Take the lease of a new worker."""
        ...

    def release(self, worker: UUID) -> None:
        """Give the worker's leases back; its running jobs are then rescued at once."""
        ...

    def claims(self, worker: UUID) -> list[tuple[UUID, int]]:
        """Return the id and token of every job that runs under a worker."""
        ...

    def rescue(self, *, limit: int) -> list[Rescue]:
        """Take at most ``limit`` jobs from workers without a valid lease, each in its own right."""
        ...

    def workers(self) -> list[WorkerRecord]:
        """Return every worker lease, the expired ones included."""
        ...


class Outbox(Protocol):
    """Messages staged inside the app's own transaction."""

    def stage_enqueue(
        self, requests: Sequence[EnqueueRequest], *, on_conflict: OnConflict, alias: str
    ) -> None:
        """Write the requests as outbox rows on ``alias``, in its open transaction."""
        ...
