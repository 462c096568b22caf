"""Reading jobs on PostgreSQL, and bringing a finished one back."""

from __future__ import annotations

from datetime import datetime
from typing import cast
from uuid import UUID

import psycopg
from django.db import transaction
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast
from django.db.utils import IntegrityError

from ultimate_jobs.drivers.postgres.rows import (
    ReadableJob,
    event_record,
    job_record,
    job_state,
    listed_job,
)
from ultimate_jobs.drivers.postgres.statements import Statements, schema_errors, scope
from ultimate_jobs.errors import JobDuplicate, JobNotFound, JobStateRefused
from ultimate_jobs.models import Job, JobEvent
from ultimate_jobs.models.job import LIVE_KEY_INDEX
from ultimate_jobs.records import EventRecord, JobFilter, JobRecord, QueueStats, UnreadableJob
from ultimate_jobs.states import RETRYABLE, JobState
from ultimate_jobs.types import ANY_TENANT, TenantScope

COUNT_CAP = 10_000


class PostgresIntrospection:
    """Every read is pinned to the queue's alias."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._run = Statements(alias)

    def now(self) -> datetime:
        moment: datetime = self._run.rows("endings.now")[0][0]
        return moment

    def get(self, job_id: UUID, *, tenant: TenantScope) -> JobRecord | None:
        with schema_errors(self._alias):
            row = _of_tenant(self._jobs().filter(id=job_id), tenant).first()
        return None if row is None else job_record(_readable(row))

    def find(self, criteria: JobFilter, *, limit: int) -> list[JobRecord | UnreadableJob]:
        rows = _of_tenant(self._jobs(), criteria.tenant)
        if criteria.states:
            rows = rows.filter(state__in=criteria.states)
        if criteria.queue is not None:
            rows = rows.filter(queue=criteria.queue)
        if criteria.name is not None:
            rows = rows.filter(name=criteria.name)
        if criteria.key is not None:
            rows = rows.filter(idempotency_key=criteria.key)
        if criteria.before is not None:
            rows = rows.filter(id__lt=criteria.before)
        with schema_errors(self._alias):
            return [listed_job(_readable(row)) for row in rows.order_by("-id")[:limit]]

    def events(self, job_id: UUID) -> list[EventRecord]:
        with schema_errors(self._alias):
            rows = JobEvent.objects.using(self._alias).filter(job_id=job_id).order_by("id")
            return [event_record(row) for row in rows]

    def stats(self) -> list[QueueStats]:
        return [
            QueueStats(
                queue=queue,
                depth=depth,
                scheduled=scheduled,
                running=running,
                dead=dead,
                unknown=unknown,
                oldest_ready_seconds=oldest,
                estimated=estimated,
            )
            for queue, depth, scheduled, running, dead, unknown, oldest, estimated in (
                self._run.rows("queues.stats", cap=COUNT_CAP)
            )
        ]

    def retry(
        self, job_id: UUID, *, tenant: TenantScope, by: str, fresh_run_id: UUID | None
    ) -> JobRecord:
        with transaction.atomic(using=self._alias):
            target = self._retry_target(job_id, tenant, fresh=fresh_run_id is not None)
            self._refuse_held_key(job_id, target)
            try:
                # A savepoint: an enqueue may take the key between our look and our write.
                with transaction.atomic(using=self._alias):
                    self._run.rows(
                        "endings.retry",
                        id=job_id,
                        state=target["state"],
                        by=by,
                        fresh_run_id=fresh_run_id,
                    )
            except IntegrityError as error:
                cause = error.__cause__
                if not isinstance(cause, psycopg.errors.UniqueViolation):
                    raise
                if cause.diag.constraint_name != LIVE_KEY_INDEX:
                    raise
                self._refuse_held_key(job_id, target)
                raise
            return job_record(_readable(self._jobs().get(id=job_id)))

    def _retry_target(self, job_id: UUID, tenant: TenantScope, *, fresh: bool) -> dict[str, str]:
        rows = self._run.rows("endings.retry_target", id=job_id, **scope(tenant))
        if not rows:
            raise JobNotFound(job_id=job_id)
        _, name, owner, key, state = rows[0]
        allowed = (*RETRYABLE, JobState.COMPLETED) if fresh else RETRYABLE
        if job_state(state) not in allowed:
            raise JobStateRefused(job_id=job_id, state=state, verb="retry", allowed=allowed)
        return {"name": name, "tenant": owner, "key": key, "state": state}

    def _refuse_held_key(self, job_id: UUID, target: dict[str, str]) -> None:
        holder = self._run.rows(
            "endings.live_holder", name=target["name"], tenant=target["tenant"], key=target["key"]
        )
        if holder and holder[0][0] != job_id:
            raise JobDuplicate(job=target["name"], job_id=holder[0][0], state=holder[0][1])

    def _jobs(self) -> QuerySet[Job]:
        """Payload and result as the text that is stored: no number is rounded on the way."""
        return (
            Job.objects.using(self._alias)
            .defer("payload", "result")
            .annotate(
                payload_text=Cast("payload", TextField()), result_text=Cast("result", TextField())
            )
        )


def _readable(row: Job) -> ReadableJob:
    # Annotated columns are not part of the model's type.
    return cast(ReadableJob, row)


def _of_tenant(rows: QuerySet[Job], tenant: TenantScope) -> QuerySet[Job]:
    if tenant is ANY_TENANT:
        return rows
    return rows.filter(tenant_id__isnull=True) if not tenant else rows.filter(tenant_id=tenant)
