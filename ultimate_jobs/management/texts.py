"""Records as text for a terminal; nothing in them can act on it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from ultimate_jobs.conf import RetentionOptions
from ultimate_jobs.management.output import table
from ultimate_jobs.observe.plain import duration, many_lines, one_line
from ultimate_jobs.records import (
    EventRecord,
    JobRecord,
    Pruned,
    QueueState,
    QueueStats,
    UnreadableJob,
    WorkerRecord,
)
from ultimate_jobs.services.operators import Outcome, Overview, Page, Trace

LONGEST_JSON = 4000
_TOLD_APART = ("error_class", "message", "traceback")


def page(found: Page) -> str:
    """Return a list of jobs, and how to ask for the next page."""
    if not found.jobs:
        return "no job matches"
    headings = ("ID", "STATE", "NAME", "QUEUE", "TENANT", "KEY", "ATTEMPT", "DUE", "AGE")
    lines = [table(headings, (_row(job, found.now) for job in found.jobs))]
    unread = [job for job in found.jobs if isinstance(job, UnreadableJob)]
    lines += [one_line(f"{job.id} cannot be read: {job.error}") for job in unread]
    if found.next_before is not None:
        lines.append(f"older ones: --before {found.next_before}")
    return "\n".join(lines)


def trace(found: Trace) -> str:
    """Return all that is stored of one job."""
    job = found.job
    parts = [
        "\n".join(f"{label:<12} {one_line(value)}" for label, value in _facts(job)),
        one_line(found.why),
        f"payload\n{_pretty(job.payload)}",
    ]
    if job.result is not None:
        parts.append(f"result\n{_pretty(job.result)}")
    if job.last_error is not None:
        parts.append(f"last error\n{many_lines(job.last_error, limit=LONGEST_JSON)}")
    if found.events:
        parts.append("\n".join(["events", *(_event(one) for one in found.events)]))
    return "\n\n".join(parts)


def outcome(one: Outcome) -> str:
    """Return what became of one id that was not refused."""
    if one.did == "requested":
        return f"{one.id} runs and was asked to stop"
    if one.did == "already_final":
        return f"{one.id} was {one.state} before"
    return f"{one.id} is {one.state}"


def overview(found: Overview) -> str:
    """Return the counts of every queue and the live workers."""
    headings = ("QUEUE", "DEPTH", "SCHEDULED", "RUNNING", "DEAD", "UNKNOWN", "OLDEST")
    rows = [_counts(one.queue, one) for one in found.queues]
    parts = [table(headings, [*rows, _counts("(all)", found.total)])]
    parts += [_paused(one) for one in found.paused.values()]
    if found.total.estimated:
        parts.append("~ at least this many; counting stopped at a cap")
    parts.append(_workers(found.workers))
    return "\n".join(parts)


def queue_state(one: QueueState, *, note: str | None) -> str:
    """Return whether a queue is paused now, and what is odd about that."""
    name = one_line(one.queue)
    if one.paused_at is None:
        lines = [f"{name} goes on" if one.changed else f"{name} was not paused"]
    elif one.changed:
        lines = [f"{name} is paused; what runs goes on, and what waits is kept"]
    else:
        lines = [f"{name} was paused before, at {moment(one.paused_at)} by {_who(one)}"]
    return "\n".join([*lines, *([] if note is None else [one_line(note)])])


def pruned(one: Pruned, keep: RetentionOptions, *, dry_run: bool) -> str:
    """Return what was, or would be, removed, and how long each state is kept."""
    rows = [
        (state, getattr(one, state), _kept(getattr(keep, f"{state}_ms")))
        for state in ("completed", "cancelled", "dead")
    ]
    heading = "WOULD GO" if dry_run else "REMOVED"
    with_them = f"with {one.events} events and {one.steps} steps of their runs"
    return f"{table(('STATE', heading, 'KEPT FOR'), rows)}\n{with_them}"


def _kept(period_ms: int | None) -> str:
    return "ever" if period_ms is None else duration(period_ms / 1000)


def _paused(one: QueueState) -> str:
    return f"{one_line(one.queue)} is paused since {moment(one.paused_at)} by {_who(one)}"


def _who(one: QueueState) -> str:
    return one_line(one.paused_by or "nobody known")


def described(jobs: Iterable[dict[str, Any]]) -> str:
    """Return declared jobs, one a line."""
    rows = [
        (job["name"], job["queue"], job["retry"]["attempts"], job["retry"]["backoff"])
        for job in jobs
    ]
    return table(("NAME", "QUEUE", "ATTEMPTS", "BACKOFF"), rows) if rows else "no job is declared"


def moment(at: datetime | None) -> str:
    """Return an instant in UTC, to the second."""
    return "-" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def _row(job: JobRecord | UnreadableJob, now: datetime) -> tuple[object, ...]:
    if isinstance(job, UnreadableJob):
        return (job.id, "?", job.name, *(None,) * 6)
    attempt = f"{job.attempt}/{job.max_attempts}"
    since = duration((now - job.created_at).total_seconds())
    due = moment(job.due_at)
    return (job.id, job.state, job.name, job.queue, job.tenant, job.key, attempt, due, since)


def _facts(job: JobRecord) -> Iterator[tuple[str, object]]:
    yield "job", job.id
    yield "state", job.state
    yield "name", job.name
    yield "queue", job.queue
    yield "tenant", "-" if job.tenant is None else job.tenant
    yield "key", job.key
    yield "run", job.run_id
    yield "attempt", f"{job.attempt} of {job.max_attempts}"
    yield "priority", job.priority
    yield "lost leases", job.lost_leases
    yield "deferrals", job.deferrals
    yield "retried", job.retry_count
    yield "due", moment(job.due_at)
    yield "not before", moment(job.run_at)
    yield "created", moment(job.created_at)
    yield "claimed", moment(job.claimed_at)
    if job.cancel_requested_at is not None:
        yield "asked to end", moment(job.cancel_requested_at)
    yield "finished", moment(job.finished_at)
    yield "worker", job.worker or "-"
    yield "enqueued by", job.enqueued_by or "-"
    yield "trace", job.traceparent or "-"
    yield "runs again", "yes" if job.rerun_requested else "no"


def _event(one: EventRecord) -> str:
    detail = one.detail
    head = f"{moment(one.at)}  {one.type}  attempt {one.attempt}"
    if one.worker is not None:
        head += f"  worker {one.worker}"
    if "error_class" in detail:
        head += f"  {detail['error_class']}: {detail.get('message', '')}"
    others = {key: value for key, value in detail.items() if key not in _TOLD_APART}
    if others:
        head += f"  {json.dumps(others)}"
    lines = [one_line(head)]
    if detail.get("traceback"):
        lines += [f"    {line}" for line in many_lines(detail["traceback"]).split("\n")]
    return "\n".join(lines)


def _counts(name: str, one: QueueStats) -> tuple[object, ...]:
    mark = "~" if one.estimated else ""
    oldest = one.oldest_ready_seconds
    return (
        name,
        f"{mark}{one.depth}",
        f"{mark}{one.scheduled}",
        one.running,
        f"{mark}{one.dead}",
        f"{mark}{one.unknown}",
        None if oldest is None else duration(oldest),
    )


def _workers(workers: list[WorkerRecord]) -> str:
    if not workers:
        return "\nno worker is alive"
    rows = [
        (
            one.worker,
            f"{one.info.get('hostname', '?')}:{one.info.get('pid', '?')}",
            f"{one.running}/{one.info.get('threads', '?')}",
            _queues(one.info.get("queues")),
            one.info.get("app_version") or None,
            moment(one.started_at),
        )
        for one in workers
    ]
    headings = ("WORKER", "PROCESS", "RUNNING", "QUEUES", "VERSION", "STARTED")
    return f"\n{table(headings, rows)}"


def _queues(queues: object) -> str:
    return ", ".join(map(str, queues)) if isinstance(queues, list | tuple) else "every one"


def _pretty(text: str) -> str:
    return many_lines(json.dumps(json.loads(text), indent=2), limit=LONGEST_JSON)
