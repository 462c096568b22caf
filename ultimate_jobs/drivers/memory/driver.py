"""The memory driver: the six verbs over lists, and its capability objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar
from uuid import UUID

from ultimate_jobs.clock import Clock, system_clock
from ultimate_jobs.drivers.base import Atomic, Claimer, Outbox
from ultimate_jobs.drivers.memory.claimer import MemoryClaimer
from ultimate_jobs.drivers.memory.introspection import MemoryIntrospection
from ultimate_jobs.drivers.memory.jobs import MemoryJobs
from ultimate_jobs.drivers.memory.leases import MemoryLeases
from ultimate_jobs.drivers.memory.queues import MemoryQueues
from ultimate_jobs.drivers.memory.retention import MemoryRetention
from ultimate_jobs.drivers.memory.slots import MemorySlots
from ultimate_jobs.drivers.memory.store import Store
from ultimate_jobs.drivers.memory.wakeups import MemoryWakeups
from ultimate_jobs.errors import DriverUnsupported
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
    TenantScope,
    WriteAnswer,
)


class MemoryDriver:
    """Jobs in this process only; nothing outlives ``close()``, which the owner must call.

    Args:
        clock: where now comes from, in epoch milliseconds.
        lease_ttl_ms: how long a worker's lease stands; ``None`` reads the settings.
        max_lost_leases: how often a job may lose its worker; ``None`` reads the settings.
    """

    name: ClassVar[str] = "memory"
    supports_introspection: ClassVar[bool] = True
    supports_leases: ClassVar[bool] = True
    supports_steps: ClassVar[bool] = False
    supports_outbox: ClassVar[bool] = False
    supports_backfills: ClassVar[bool] = False
    supports_tasks: ClassVar[bool] = False
    supports_processes: ClassVar[bool] = False
    supports_wakeups: ClassVar[bool] = True
    supports_atomic: ClassVar[bool] = False

    def __init__(
        self,
        clock: Clock = system_clock,
        *,
        lease_ttl_ms: int | None = None,
        max_lost_leases: int | None = None,
    ) -> None:
        self._store = Store(clock, lease_ttl_ms=lease_ttl_ms, max_lost_leases=max_lost_leases)
        self._jobs = MemoryJobs(self._store)
        self._leases = MemoryLeases(self._store)
        self._introspection = MemoryIntrospection(self._store)
        self._slots = MemorySlots(self._store, self._jobs)
        self._wakeups = MemoryWakeups()
        self._queues = MemoryQueues(self._store)
        self._retention = MemoryRetention(self._store)

    @property
    def alias(self) -> None:
        return None

    @property
    def introspection(self) -> MemoryIntrospection:
        return self._introspection

    @property
    def leases(self) -> MemoryLeases:
        return self._leases

    @property
    def outbox(self) -> Outbox:
        raise DriverUnsupported(driver=self.name, feature="outbox")

    @property
    def slots(self) -> MemorySlots:
        return self._slots

    @property
    def wakeups(self) -> MemoryWakeups:
        return self._wakeups

    @property
    def atomic(self) -> Atomic:
        raise DriverUnsupported(driver=self.name, feature="atomic=True")

    @property
    def queues(self) -> MemoryQueues:
        return self._queues

    @property
    def retention(self) -> MemoryRetention:
        return self._retention

    def enqueue(
        self, requests: Sequence[EnqueueRequest], *, on_conflict: OnConflict
    ) -> list[EnqueueAnswer]:
        return self._jobs.enqueue(requests, on_conflict=on_conflict)

    def claim(self, request: ClaimRequest) -> list[Claim]:
        return self._jobs.claim(request)

    def claimer(
        self,
        *,
        queues: tuple[str, ...] | None,
        names: tuple[str, ...],
        without: tuple[str, ...] = (),
        survey_every: float = 0.0,
    ) -> Claimer:
        return MemoryClaimer(self._jobs, queues=queues, names=names, without=without)

    def ack(self, worker: UUID, completions: Sequence[Completion]) -> list[WriteAnswer]:
        return self._jobs.ack(worker, completions)

    def nack(self, worker: UUID, nacks: Sequence[Nack]) -> list[WriteAnswer]:
        return self._jobs.nack(worker, nacks)

    def rehearse(self, worker: UUID) -> None:
        """Nothing can be missing here."""

    def heartbeat(self, worker: UUID) -> HeartbeatAnswer:
        return self._leases.heartbeat(worker)

    def cancel(self, ids: Sequence[UUID], *, tenant: TenantScope, by: str) -> list[CancelAnswer]:
        return self._jobs.cancel(ids, tenant=tenant, by=by)

    def at(self, alias: str) -> MemoryDriver:
        raise DriverUnsupported(driver=self.name, feature=f'the database "{alias}"')

    def close(self) -> None:
        self._store.clear()
