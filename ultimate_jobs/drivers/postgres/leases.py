"""Worker leases on PostgreSQL, and the sweep over those that expired."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from uuid import UUID

from django.db.utils import DatabaseError

from ultimate_jobs.drivers.postgres.rows import job_state
from ultimate_jobs.drivers.postgres.statements import Statements
from ultimate_jobs.records import WorkerRecord
from ultimate_jobs.types import Rescue, WorkerCard

logger = logging.getLogger("ultimate_jobs.leases")


class PostgresLeases:
    """One lease row per worker process; no job row is touched to keep it alive."""

    def __init__(self, alias: str, *, ttl_ms: int, max_lost_leases: int) -> None:
        self._run = Statements(alias)
        self._ttl_ms = ttl_ms
        self._max_lost_leases = max_lost_leases

    def register(self, card: WorkerCard) -> None:
        info = asdict(card)
        del info["worker"]
        self._run.rows(
            "leases.register_worker",
            worker=card.worker,
            ttl_ms=self._ttl_ms,
            info=json.dumps(info),
        )

    def release(self, worker: UUID) -> None:
        self._run.rows("leases.release_worker", worker=worker)

    def claims(self, worker: UUID) -> list[tuple[UUID, int]]:
        return [(id_, token) for id_, token in self._run.rows("leases.claims", worker=worker)]

    def rescue(self, *, limit: int) -> list[Rescue]:
        lost = [row[0] for row in self._run.rows("leases.find_lost", limit=limit)]
        rescued = self._rescue(lost) if lost else []
        self._run.rows("leases.forget_expired")
        self._run.rows("slots.forget_expired")
        return rescued

    def workers(self) -> list[WorkerRecord]:
        return [
            WorkerRecord(
                worker=worker,
                started_at=started,
                renewed_at=renewed,
                expires_at=expires,
                expired=expired,
                running=running,
                info=json.loads(info),
            )
            for worker, started, renewed, expires, expired, info, running in (
                self._run.rows("leases.workers")
            )
        ]

    def take_duty(self, name: str, holder: UUID, *, ttl_ms: int) -> bool:
        return bool(self._run.rows("duties.take", name=name, holder=holder, ttl_ms=ttl_ms))

    def _rescue(self, ids: list[UUID]) -> list[Rescue]:
        try:
            return self._rescue_together(ids)
        except DatabaseError:
            if len(ids) == 1 or self._run.connection.in_atomic_block:
                raise
        return self._rescue_one_by_one(ids)

    def _rescue_one_by_one(self, ids: list[UUID]) -> list[Rescue]:
        """One row that cannot be rescued must not keep the others lost."""
        rescued: list[Rescue] = []
        for id_ in ids:
            try:
                rescued += self._rescue_together([id_])
            except DatabaseError:
                logger.exception("jobs.rescue.failed", extra={"job_id": str(id_)})
        return rescued

    def _rescue_together(self, ids: list[UUID]) -> list[Rescue]:
        rows = self._run.rows("leases.rescue", ids=ids, max_lost_leases=self._max_lost_leases)
        return [
            Rescue(
                id=id_,
                name=name,
                worker=worker,
                token=token,
                lost_leases=lost,
                state=job_state(state),
            )
            for id_, name, worker, token, lost, state in rows
        ]
