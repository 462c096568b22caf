"""Every state a stored row may be in, and which may follow which."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class JobState(StrEnum):
    """States of a job (column ``x_jobs.state``)."""

    READY = "ready"
    DELAYED = "delayed"
    RUNNING = "running"
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    DEAD = "dead"
    CANCELLED = "cancelled"


class StepStatus(StrEnum):
    """States of a step (column ``x_job_steps.status``)."""

    COMPLETED = "completed"
    FAILED = "failed"
    SLEEPING = "sleeping"
    WAITING = "waiting"


class BackfillStatus(StrEnum):
    """States of a backfill pass (column ``x_backfills.status``)."""

    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


WAITING = (JobState.READY, JobState.DELAYED, JobState.SUSPENDED)
LIVE = (JobState.READY, JobState.DELAYED, JobState.RUNNING, JobState.SUSPENDED)
FINAL = (JobState.COMPLETED, JobState.DEAD, JobState.CANCELLED)
RETRYABLE = (JobState.DEAD, JobState.CANCELLED)

BACKFILL_FINAL = (BackfillStatus.COMPLETED, BackfillStatus.FAILED, BackfillStatus.CANCELLED)

# A final state leaves only by a manual retry, which raises retry_count in the same UPDATE.
TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.READY: frozenset({JobState.RUNNING, JobState.CANCELLED}),
    JobState.DELAYED: frozenset({JobState.RUNNING, JobState.CANCELLED}),
    JobState.SUSPENDED: frozenset({JobState.RUNNING, JobState.READY, JobState.CANCELLED}),
    JobState.RUNNING: frozenset(
        {
            JobState.READY,
            JobState.SUSPENDED,
            JobState.COMPLETED,
            JobState.DEAD,
            JobState.CANCELLED,
        }
    ),
    JobState.COMPLETED: frozenset({JobState.READY}),
    JobState.DEAD: frozenset({JobState.READY}),
    JobState.CANCELLED: frozenset({JobState.READY}),
}


def sql_list(states: Iterable[StrEnum]) -> str:
    """Return states as the inside of a SQL ``IN (...)``, for DDL built at import."""
    return ", ".join(f"'{state.value}'" for state in states)
