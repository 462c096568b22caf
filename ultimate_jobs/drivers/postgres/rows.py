"""Decoders from stored rows to records; an unknown status is refused by name, never guessed."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from ultimate_jobs.errors import JobRowStatusUnknown
from ultimate_jobs.models import BackfillPass, JobEvent, JobStep
from ultimate_jobs.records import BackfillRecord, EventRecord, JobRecord, StepRecord, UnreadableJob
from ultimate_jobs.states import BackfillStatus, JobState, StepStatus

_Status = TypeVar("_Status", bound=StrEnum)


def _decode(known: type[_Status], value: str, *, table: str, column: str) -> _Status:
    try:
        return known(value)
    except ValueError:
        raise JobRowStatusUnknown(
            table=table, column=column, value=value, known=[one.value for one in known]
        ) from None


def job_state(value: str) -> JobState:
    """Return ``x_jobs.state``.

    Raises:
        JobRowStatusUnknown: this release knows no such state.
    """
    return _decode(JobState, value, table="x_jobs", column="state")


def step_status(value: str) -> StepStatus:
    """Return ``x_job_steps.status``, or raise ``JobRowStatusUnknown``."""
    return _decode(StepStatus, value, table="x_job_steps", column="status")


def backfill_status(value: str) -> BackfillStatus:
    """Return ``x_backfills.status``, or raise ``JobRowStatusUnknown``."""
    return _decode(BackfillStatus, value, table="x_backfills", column="status")


class ReadableJob(Protocol):
    """A row of ``Job`` with its JSON columns as text, under ``payload_text``, ``result_text``."""

    payload_text: str
    result_text: str | None

    def __getattr__(self, column: str) -> Any: ...


def job_record(row: ReadableJob) -> JobRecord:
    """Return a job's row as a record, or raise ``JobRowStatusUnknown``."""
    return JobRecord(
        id=row.id,
        run_id=row.run_id,
        name=row.name,
        queue=row.queue,
        tenant=row.tenant_id,
        key=row.idempotency_key,
        payload=row.payload_text,
        result=row.result_text,
        state=job_state(row.state),
        priority=row.priority,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        lost_leases=row.lost_leases,
        retry_count=row.retry_count,
        run_at=row.run_at,
        due_at=row.due_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
        claimed_at=row.claimed_at,
        finished_at=row.finished_at,
        cancel_requested_at=row.cancel_requested_at,
        worker=row.worker,
        token=row.token,
        last_error=row.last_error,
        enqueued_by=row.enqueued_by,
        traceparent=row.traceparent,
        rerun_requested=row.rerun is not None,
        serial_key=row.serial_key,
        deferrals=row.deferrals,
    )


def listed_job(row: ReadableJob) -> JobRecord | UnreadableJob:
    """Return a job for a list, where one row that cannot be read must not fail the whole."""
    try:
        return job_record(row)
    except JobRowStatusUnknown as error:
        return UnreadableJob(id=row.id, name=row.name, error=error.cause)


def event_record(row: JobEvent) -> EventRecord:
    """Return an event's row as a record."""
    detail: Any = row.detail
    return EventRecord(
        id=row.id,
        job_id=row.job_id,
        run_id=row.run_id,
        type=row.type,
        attempt=row.attempt,
        at=row.at,
        worker=row.worker,
        detail=detail if isinstance(detail, dict) else {},
    )


def step_record(row: JobStep) -> StepRecord:
    """Return a step's row as a record, or raise ``JobRowStatusUnknown``."""
    return StepRecord(
        run_id=row.run_id,
        name=row.name,
        nth=row.nth,
        position=row.position,
        status=step_status(row.status),
        output=None if row.output is None else json.dumps(row.output),
        attempts=row.attempts,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )


def backfill_record(row: BackfillPass) -> BackfillRecord:
    """Return a pass's row as a record, or raise ``JobRowStatusUnknown``."""
    return BackfillRecord(
        id=row.id,
        name=row.name,
        status=backfill_status(row.status),
        checksum=row.checksum,
        app_version=row.app_version,
        environment=row.environment,
        rows_processed=row.rows_processed,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )
