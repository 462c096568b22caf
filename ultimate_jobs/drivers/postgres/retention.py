"""Removing finished jobs on PostgreSQL, a batch a statement."""

from __future__ import annotations

from uuid import UUID

from ultimate_jobs.conf import RetentionOptions
from ultimate_jobs.drivers.postgres.statements import Statements
from ultimate_jobs.records import Pruned


class PostgresRetention:
    """Each batch is one statement, so outside a transaction it is a short one of its own."""

    def __init__(self, alias: str) -> None:
        self._run = Statements(alias)

    def prune(self, keep: RetentionOptions, *, after: UUID, through: UUID, limit: int) -> Pruned:
        return self._batch("retention.prune", keep, after, through, limit)

    def survey(self, keep: RetentionOptions, *, after: UUID, through: UUID, limit: int) -> Pruned:
        return self._batch("retention.survey", keep, after, through, limit)

    def _batch(
        self, statement: str, keep: RetentionOptions, after: UUID, through: UUID, limit: int
    ) -> Pruned:
        [(last, passed, completed, cancelled, dead, events, steps)] = self._run.rows(
            statement,
            completed_ms=keep.completed_ms,
            cancelled_ms=keep.cancelled_ms,
            dead_ms=keep.dead_ms,
            after=after,
            through=through,
            limit=limit,
        )
        return Pruned(
            completed=completed,
            cancelled=cancelled,
            dead=dead,
            events=events,
            steps=steps,
            last=last if passed == limit else None,
        )
