"""The six verbs on PostgreSQL, and the doors to the capability objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar
from uuid import UUID

from ultimate_jobs import conf
from ultimate_jobs.drivers.base import (
    Atomic,
    Claimer,
    Introspection,
    Leases,
    Outbox,
    Queues,
    Retention,
    Wakeups,
)
from ultimate_jobs.drivers.postgres import endings, enqueueing
from ultimate_jobs.drivers.postgres.claims import PostgresClaimer
from ultimate_jobs.drivers.postgres.introspection import PostgresIntrospection
from ultimate_jobs.drivers.postgres.leases import PostgresLeases
from ultimate_jobs.drivers.postgres.outbox import PostgresOutbox
from ultimate_jobs.drivers.postgres.queues import PostgresQueues
from ultimate_jobs.drivers.postgres.retention import PostgresRetention
from ultimate_jobs.drivers.postgres.slots import PostgresSlots
from ultimate_jobs.drivers.postgres.statements import Statements
from ultimate_jobs.drivers.postgres.wakeups import PostgresWakeups
from ultimate_jobs.drivers.slots import Slots
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


class PostgresDriver:
    """Jobs in the tables of one database alias.

    Holds no connection and no state of its own: each call uses the calling thread's Django
    connection of ``alias``, in whatever transaction is open there.
    """

    name: ClassVar[str] = "postgres"
    supports_introspection: ClassVar[bool] = True
    supports_leases: ClassVar[bool] = True
    supports_steps: ClassVar[bool] = False
    supports_outbox: ClassVar[bool] = True
    supports_backfills: ClassVar[bool] = False
    supports_tasks: ClassVar[bool] = False
    supports_processes: ClassVar[bool] = True
    supports_wakeups: ClassVar[bool] = True
    supports_atomic: ClassVar[bool] = True

    def __init__(
        self,
        alias: str | None = None,
        *,
        lease_ttl_ms: int | None = None,
        max_lost_leases: int | None = None,
    ) -> None:
        self.alias: str = conf.settings().database if alias is None else alias
        self._lease_ttl_ms = lease_ttl_ms
        self._max_lost_leases = max_lost_leases
        self._run = Statements(self.alias)

    @property
    def lease_ttl_ms(self) -> int:
        return self._lease_ttl_ms or conf.settings().lease_ttl_ms

    @property
    def max_lost_leases(self) -> int:
        return self._max_lost_leases or conf.settings().max_lost_leases

    @property
    def introspection(self) -> Introspection:
        return PostgresIntrospection(self.alias)

    @property
    def leases(self) -> Leases:
        return PostgresLeases(
            self.alias, ttl_ms=self.lease_ttl_ms, max_lost_leases=self.max_lost_leases
        )

    @property
    def outbox(self) -> Outbox:
        return PostgresOutbox()

    @property
    def slots(self) -> Slots:
        return PostgresSlots(self.alias, ttl_ms=self.lease_ttl_ms)

    @property
    def wakeups(self) -> Wakeups:
        return PostgresWakeups(self.alias)

    @property
    def atomic(self) -> Atomic:
        return endings.PostgresAtomic(self._run)

    @property
    def queues(self) -> Queues:
        return PostgresQueues(self.alias)

    @property
    def retention(self) -> Retention:
        return PostgresRetention(self.alias)

    def enqueue(
        self, requests: Sequence[EnqueueRequest], *, on_conflict: OnConflict
    ) -> list[EnqueueAnswer]:
        return enqueueing.enqueue(self._run, requests, on_conflict=on_conflict)

    def claim(self, request: ClaimRequest) -> list[Claim]:
        claimer = self.claimer(queues=request.queues, names=request.names)
        return claimer.claim(request.worker, request.limit)

    def claimer(
        self,
        *,
        queues: tuple[str, ...] | None,
        names: tuple[str, ...],
        without: tuple[str, ...] = (),
        survey_every: float = 0.0,
    ) -> Claimer:
        return PostgresClaimer(
            self._run, queues=queues, names=names, without=without, survey_every=survey_every
        )

    def ack(self, worker: UUID, completions: Sequence[Completion]) -> list[WriteAnswer]:
        return endings.ack(self._run, worker, completions)

    def nack(self, worker: UUID, nacks: Sequence[Nack]) -> list[WriteAnswer]:
        return endings.nack(self._run, worker, nacks)

    def rehearse(self, worker: UUID) -> None:
        PostgresClaimer(self._run, queues=(), names=()).rehearse(worker)
        self.ack(worker, [Completion(worker, token=0)])
        self.nack(worker, [Nack(worker, token=0)])

    def heartbeat(self, worker: UUID) -> HeartbeatAnswer:
        renewed = self._run.rows("leases.renew", worker=worker, ttl_ms=self.lease_ttl_ms)
        if not any(kind == "worker" for (kind,) in renewed):
            return HeartbeatAnswer(alive=False)
        asked = self._run.rows("endings.cancel_requests", worker=worker)
        return HeartbeatAnswer(alive=True, cancel_requested=frozenset(row[0] for row in asked))

    def cancel(self, ids: Sequence[UUID], *, tenant: TenantScope, by: str) -> list[CancelAnswer]:
        return endings.cancel(self._run, ids, tenant=tenant, by=by)

    def at(self, alias: str) -> PostgresDriver:
        return PostgresDriver(
            alias, lease_ttl_ms=self._lease_ttl_ms, max_lost_leases=self._max_lost_leases
        )

    def close(self) -> None:
        """Nothing to release: Django owns the connections."""
