"""All that is stored of one job, as plain text in the order in which it happened."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, Func, Q, QuerySet, TextField
from django.db.models.functions import Left
from django.utils.translation import gettext as _

from ultimate_jobs.admin.readonly import DatabaseNow, queue_alias
from ultimate_jobs.drivers import driver_for
from ultimate_jobs.drivers.postgres.rows import job_record
from ultimate_jobs.errors import JobRowStatusUnknown
from ultimate_jobs.models import Job, JobEvent
from ultimate_jobs.observe.plain import duration, many_lines, one_line
from ultimate_jobs.records import QueueState, WorkerRecord
from ultimate_jobs.services.explain import explain

LONGEST_TEXT = 20_000
LONGEST_FACT = 300
MOST_EVENTS = 200

_LARGE = ("payload", "result", "rerun", "last_error")
_ERROR = ("error_class", "message", "traceback")


@dataclass(frozen=True, slots=True)
class Fact:
    """A label with a plain line of text, or with an instant."""

    label: str
    text: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened to a job."""

    at: datetime
    what: str
    attempt: int | None = None
    worker: UUID | None = None
    error: str | None = None
    traceback: str | None = None
    facts: list[Fact] = field(default_factory=list)
    follows: UUID | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """One job's page; ``omitted`` says that older events than those shown exist."""

    job: Job
    why: str
    facts: list[Fact]
    moments: list[Moment]
    omitted: bool
    payload: str
    result: str | None
    last_error: str | None
    worker: list[Fact]


class _Pretty(Func):
    function = "jsonb_pretty"
    output_field = TextField()


def read_trace(object_id: str) -> Trace | None:
    """Return one job's page, in three statements; ``None`` where there is no such job."""
    alias, job_id = queue_alias(), _uuid(object_id)
    if alias is None or job_id is None:
        return None
    job = _jobs(alias).filter(id=job_id).first()
    if job is None:
        return None
    newest = JobEvent.objects.using(alias).filter(job_id=job_id).order_by("-id")
    events = list(newest[: MOST_EVENTS + 1])
    driver = driver_for(alias)
    return _trace(job, events, driver.leases.workers(), driver.queues.paused())


def _jobs(alias: str) -> QuerySet[Any]:
    """The large columns are cut by the database: no page is worth a megabyte on the way to it."""
    return (
        Job.objects.using(alias)
        .defer(*_LARGE)
        .annotate(
            now=DatabaseNow(),
            payload_text=Left(_Pretty("payload"), LONGEST_TEXT + 1),
            result_text=Left(_Pretty("result"), LONGEST_TEXT + 1),
            error_text=Left("last_error", LONGEST_TEXT + 1),
            has_rerun=ExpressionWrapper(Q(rerun__isnull=False), output_field=BooleanField()),
        )
    )


def _trace(
    job: Any,
    newest: Sequence[JobEvent],
    workers: Sequence[WorkerRecord],
    paused: Sequence[QueueState],
) -> Trace:
    # Filled in with what was read, so that nothing loads the rest.
    job.last_error, job.rerun = job.error_text, {} if job.has_rerun else None
    events = list(reversed(newest[:MOST_EVENTS]))
    return Trace(
        job=job,
        why=_why(job, workers, paused),
        facts=list(_facts(job)),
        moments=list(_moments(job, events)),
        omitted=len(newest) > MOST_EVENTS,
        payload=_cut(job.payload_text, job.id),
        result=None if job.result_text is None else _cut(job.result_text, job.id),
        last_error=None if job.error_text is None else _cut(job.error_text, job.id),
        worker=list(_worker(job, workers)),
    )


def _why(job: Any, workers: Sequence[WorkerRecord], paused: Sequence[QueueState]) -> str:
    try:
        return one_line(explain(job_record(job), workers, now=job.now, paused=paused))
    except JobRowStatusUnknown as error:
        return one_line(f"{error.cause}. {error.fix[0].upper()}{error.fix[1:]}.")


def _facts(job: Any) -> Iterator[Fact]:
    yield Fact(_("Id"), one_line(job.id))
    yield Fact(_("Run"), one_line(job.run_id))
    yield Fact(_("Queue"), one_line(job.queue))
    yield Fact(_("Tenant"), "-" if job.tenant_id is None else one_line(job.tenant_id))
    yield Fact(_("Key"), one_line(job.idempotency_key))
    attempt = {"attempt": job.attempt, "most": job.max_attempts}
    yield Fact(_("Attempt"), _("%(attempt)d of %(most)d") % attempt)
    yield Fact(_("Priority"), one_line(job.priority))
    yield Fact(_("Lost leases"), one_line(job.lost_leases))
    yield Fact(_("Deferrals"), one_line(job.deferrals))
    yield Fact(_("Manual retries"), one_line(job.retry_count))
    yield Fact(_("Due"), at=job.due_at)
    yield Fact(_("Not before"), at=job.run_at)
    yield Fact(_("Created"), at=job.created_at)
    yield Fact(_("Age"), duration((job.now - job.created_at).total_seconds()))
    if job.cancel_requested_at is not None:
        yield Fact(_("Asked to stop"), at=job.cancel_requested_at)
    if job.has_rerun:
        yield Fact(_("Afterwards"), _("one more run follows"))
    if job.enqueued_by is not None:
        yield Fact(_("Enqueued by"), one_line(job.enqueued_by, limit=LONGEST_FACT))
    if job.traceparent is not None:
        yield Fact(_("Trace"), one_line(job.traceparent, limit=LONGEST_FACT))


def _worker(job: Any, workers: Sequence[WorkerRecord]) -> Iterator[Fact]:
    if job.worker is None:
        return
    yield Fact(_("Worker"), one_line(job.worker))
    yield Fact(_("Claim"), one_line(job.token))
    lease = next((one for one in workers if one.worker == job.worker), None)
    if lease is None:
        yield Fact(_("Lease"), _("none any more"))
        return
    host, pid = lease.info.get("hostname", "?"), lease.info.get("pid", "?")
    yield Fact(_("Process"), one_line(f"{host}:{pid}", limit=LONGEST_FACT))
    yield Fact(_("Lease renewed"), at=lease.renewed_at)
    yield Fact(_("Lease expired") if lease.expired else _("Lease until"), at=lease.expires_at)


def _moments(job: Any, events: Sequence[JobEvent]) -> Iterator[Moment]:
    """What the row itself tells has no event: its creation, its claim, its good end."""
    yield Moment(job.created_at, _("created"))
    yield from map(_moment, events)
    if job.claimed_at is not None and job.state in ("running", "completed"):
        yield Moment(job.claimed_at, _("claimed"), job.attempt, job.worker)
    if job.finished_at is not None and job.state == "completed":
        yield Moment(job.finished_at, _("completed"), job.attempt, job.worker)


def _moment(event: JobEvent) -> Moment:
    detail: dict[str, Any] = event.detail if isinstance(event.detail, dict) else {}
    trace = detail.get("traceback")
    error = f"{detail.get('error_class')}: {detail.get('message', '')}"
    return Moment(
        at=event.at,
        what=one_line(event.type, limit=LONGEST_FACT),
        attempt=event.attempt,
        worker=event.worker,
        error=one_line(error, limit=LONGEST_FACT) if "error_class" in detail else None,
        traceback=many_lines(trace, limit=LONGEST_TEXT) if trace else None,
        facts=[
            Fact(one_line(label, limit=LONGEST_FACT), _value(value))
            for label, value in detail.items()
            if label not in _ERROR and not (event.type == "rerun" and label == "job_id")
        ],
        follows=_uuid(detail.get("job_id")) if event.type == "rerun" else None,
    )


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return one_line(text, limit=LONGEST_FACT)


def _cut(text: str, job_id: UUID) -> str:
    shown = many_lines(text[:LONGEST_TEXT])
    if len(text) <= LONGEST_TEXT:
        return shown
    return f"{shown}\n… {_('cut here; this prints all of it:')} manage.py jobs show {job_id} --json"


def _uuid(text: object) -> UUID | None:
    try:
        return UUID(str(text))
    except ValueError:
        return None
