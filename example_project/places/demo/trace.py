"""The history of one job, as people read it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from ultimate_jobs import ANY_TENANT, get
from ultimate_jobs.drivers import current_driver
from ultimate_jobs.records import EventRecord, JobRecord


def trace_lines(job_id: str) -> Iterator[str]:
    """Yield the job's name, its attempts with their errors, and how it ended."""
    job = get(job_id, tenant=ANY_TENANT)
    yield f"{job.name}, key {job.key}, for {job.tenant}"
    yield _line(job, job.created_at, "enqueued")
    for event in current_driver().introspection.events(UUID(job_id)):
        yield _line(job, event.at, _happened(event))
    if job.finished_at is not None:
        yield _line(job, job.finished_at, f"attempt {job.attempt} {job.state.value}: {job.result}")


def _line(job: JobRecord, at: datetime, what: str) -> str:
    return f"  {(at - job.created_at).total_seconds():+9.3f} s  {what}"


def _happened(event: EventRecord) -> str:
    detail = event.detail
    said = f": {_error(detail)}" if "error_class" in detail else ""
    wait = detail.get("delay_ms")
    again = f" (again in {wait / 1000:g} s)" if event.type == "failed" and wait else ""
    return f"attempt {event.attempt} {event.type}{said}{again}"


def _error(detail: dict[str, Any]) -> str:
    return f"{detail['error_class'].rpartition('.')[2]}: {detail['message']}"
