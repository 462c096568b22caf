"""Records as the objects that ``--json`` prints; the keys are a promise."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import Any

from ultimate_jobs.conf import RetentionOptions
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

LISTED = (
    "id",
    "run_id",
    "name",
    "queue",
    "tenant",
    "key",
    "state",
    "priority",
    "attempt",
    "max_attempts",
    "due_at",
    "run_at",
    "created_at",
    "finished_at",
    "last_error",
)


def page(found: Page) -> dict[str, Any]:
    """Return ``{jobs, next_before}``."""
    jobs = [listed(job, found.now) for job in found.jobs]
    return {"jobs": jobs, "next_before": found.next_before}


def listed(job: JobRecord | UnreadableJob, now: datetime) -> dict[str, Any]:
    """Return one job of a list; ``unreadable`` says why a row is, and the rest is then null."""
    if isinstance(job, UnreadableJob):
        unread = dict.fromkeys(LISTED) | {"id": job.id, "name": job.name}
        return unread | {"age_seconds": None, "unreadable": job.error}
    facts = {key: getattr(job, key) for key in LISTED}
    return facts | {"age_seconds": (now - job.created_at).total_seconds(), "unreadable": None}


def trace(found: Trace) -> dict[str, Any]:
    """Return ``{job, events, why}``."""
    job = asdict(found.job)
    job["payload"] = json.loads(found.job.payload)
    job["result"] = None if found.job.result is None else json.loads(found.job.result)
    return {"job": job, "events": [event(one) for one in found.events], "why": found.why}


def event(one: EventRecord) -> dict[str, Any]:
    """Return one event of a job's history."""
    facts = asdict(one)
    del facts["job_id"]
    return facts


def outcomes(answers: list[Outcome]) -> dict[str, Any]:
    """Return ``{done, refused}``."""
    return {
        "done": [
            {"id": one.id, "outcome": one.did, "state": one.state, "run_id": one.run_id}
            for one in answers
            if one.refusal is None
        ],
        "refused": [
            {"id": one.id, "error": one.refusal.as_dict()}
            for one in answers
            if one.refusal is not None
        ],
    }


def overview(found: Overview) -> dict[str, Any]:
    """Return ``{queues, total, workers}``."""
    total = queue(found.total)
    del total["queue"]
    return {
        "queues": [queue(one) | pause(found.paused.get(one.queue)) for one in found.queues],
        "total": total,
        "workers": [worker(one) for one in found.workers],
    }


def queue(one: QueueStats) -> dict[str, Any]:
    """Return the counts of one queue."""
    return asdict(one)


def pause(one: QueueState | None) -> dict[str, Any]:
    """Return since when a queue is paused and by whom; both are null where it is not."""
    return {"paused_at": one and one.paused_at, "paused_by": one and one.paused_by}


def queue_state(one: QueueState, *, note: str | None) -> dict[str, Any]:
    """Return ``{queue, paused_at, paused_by, changed, note}``."""
    return asdict(one) | {"note": note}


def pruned(one: Pruned, keep: RetentionOptions, *, dry_run: bool) -> dict[str, Any]:
    """Return what was, or would be, removed; ``kept_seconds`` is null for what is kept for ever."""
    counts = asdict(one)
    del counts["last"]
    kept = {
        name.removesuffix("_ms"): None if period is None else period / 1000
        for name, period in asdict(keep).items()
    }
    return {"dry_run": dry_run, "removed": counts, "kept_seconds": kept}


def worker(one: WorkerRecord) -> dict[str, Any]:
    """Return one worker; what it says of itself stands under ``info``."""
    return asdict(one)


def described(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return ``{jobs}``, the public projection of each."""
    return {"jobs": jobs}
