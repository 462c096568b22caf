"""The protocol every driver implements: six verbs over lists, and capability objects."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import ClassVar, Protocol
from uuid import UUID

from ultimate_jobs.conf import RetentionOptions
from ultimate_jobs.drivers.slots import Slots
from ultimate_jobs.records import (
    EventRecord,
    JobFilter,
    JobRecord,
    Pruned,
    QueueState,
    QueueStats,
    UnreadableJob,
    WorkerRecord,
)
from ultimate_jobs.types import (
    CancelAnswer,
    Claim,
    ClaimRequest,
    Completion,
    EnqueueAnswer,
    EnqueueRequest,
    HeartbeatAnswer,
    Nack,
    OnConflict,
    Rescue,
    TenantScope,
    WorkerCard,
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
    supports_wakeups: ClassVar[bool]
    supports_atomic: ClassVar[bool]

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

    @property
    def slots(self) -> Slots: ...

    @property
    def wakeups(self) -> Wakeups: ...

    @property
    def atomic(self) -> Atomic: ...

    @property
    def queues(self) -> Queues: ...

    @property
    def retention(self) -> Retention: ...

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

    def claimer(
        self,
        *,
        queues: tuple[str, ...] | None,
        names: tuple[str, ...],
        without: tuple[str, ...] = (),
        survey_every: float = 0.0,
    ) -> Claimer:
        """Return what claims again and again with the same names and queues, as a worker does.

        Args:
            without: queues that are left to ``slots.claim``.
            survey_every: seconds in which it may go on from where it left off before it must look
                at everything anew.
        """
        ...

    def ack(self, worker: UUID, completions: Sequence[Completion]) -> list[WriteAnswer]:
        """Complete claims, each matched on worker and token."""
        ...

    def nack(self, worker: UUID, nacks: Sequence[Nack]) -> list[WriteAnswer]:
        """Give claims back, each matched on worker and token."""
        ...

    def rehearse(self, worker: UUID) -> None:
        """Run what a worker runs once on nothing, so that what cannot work fails here.

        Raises:
            JobsSchema: the database is not at this release's schema.
        """
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


class Claimer(Protocol):
    """A claim that is repeated, with a memory of where the last one ended."""

    def claim(self, worker: UUID, limit: int) -> list[Claim]:
        """Take at most ``limit`` due jobs, in the order in which they are to run."""
        ...

    @property
    def owed_in(self) -> float | None:
        """Seconds until the last claim can be made up for that did not look everywhere."""
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

    def take_duty(self, name: str, holder: UUID, *, ttl_ms: int) -> bool:
        """Take what one process at a time may do, or renew it; an expired one is taken over.

        Returns whether ``holder`` has it now, for ``ttl_ms`` from the driver's own now.
        """
        ...


class Queues(Protocol):
    """What is said of a queue as a whole, and how full it is."""

    def pause(self, queue: str, *, by: str) -> QueueState:
        """Keep the queue's jobs from being claimed; a queue that is paused stays as it is."""
        ...

    def resume(self, queue: str) -> QueueState:
        """Let the queue's jobs be claimed again."""
        ...

    def paused(self) -> list[QueueState]:
        """Return every paused queue, by name."""
        ...

    def depth(self, queue: str, *, cap: int) -> int:
        """Return how many jobs wait that are owed, or in backoff; counting stops at ``cap``."""
        ...

    def held(self, requests: Sequence[EnqueueRequest]) -> list[bool]:
        """Return for each request whether a live job holds its key."""
        ...


class Retention(Protocol):
    """Removing jobs that ended long ago."""

    def prune(self, keep: RetentionOptions, *, after: UUID, through: UUID, limit: int) -> Pruned:
        """Look at ``limit`` jobs by id, and remove what has been final for longer than ``keep``.

        Their events, and the steps of their runs, go in the same act. A job that is locked, or that
        has an event younger than a day, is passed by.
        """
        ...

    def survey(self, keep: RetentionOptions, *, after: UUID, through: UUID, limit: int) -> Pruned:
        """Return what ``prune`` would remove, and remove nothing."""
        ...


class Atomic(Protocol):
    """Completing a job in the transaction of its own body."""

    def complete(self, worker: UUID, completion: Completion) -> bool:
        """Complete one claim on ``alias``, in its open transaction, waiting for a locked row.

        Returns whether it was written. It was not where the claim was lost or a cancel was asked
        for: then the transaction is to be rolled back.
        """
        ...


class Outbox(Protocol):
    """Messages staged inside the app's own transaction."""

    def stage_enqueue(
        self, requests: Sequence[EnqueueRequest], *, on_conflict: OnConflict, alias: str
    ) -> None:
        """Write the requests as outbox rows on ``alias``, in its open transaction."""
        ...


class Wakeups(Protocol):
    """A word to idle workers that there is work; polling finds it without."""

    def announce(self, queues: Collection[str]) -> None:
        """Tell of work in these queues, once what is open in this thread has committed.

        Once per queue and transaction, and outside of the transaction that wrote. Fails nobody.
        """
        ...

    def subscription(self, address: str | None) -> Subscription:
        """Return one that is not open yet.

        Args:
            address: a connection string that replaces parts of how the jobs are reached.

        Raises:
            SettingInvalid: the address cannot be read.
            DriverUnsupported: nothing of this driver has an address.
        """
        ...


class Subscription(Protocol):
    """What one listener hears, in its own thread."""

    @property
    def is_pooled(self) -> bool:
        """Whether it goes through a pooler, where words may be lost; known once it is open."""
        ...

    def open(self) -> None:
        """Connect; raises Django's database errors, as ``listen`` and ``wait`` do."""
        ...

    def listen(self) -> None:
        """Hear from now on."""
        ...

    def wait(self, seconds: float) -> frozenset[str]:
        """Return the queues that were told of, or none after so many seconds."""
        ...

    def close(self) -> None:
        """Hear no more; it may be opened again."""
        ...
