"""Frozen records that cross the border between services and drivers.

What is made once per job is a named tuple: a frozen dataclass takes four times as long to make.
Instants are aware datetimes, durations are milliseconds, JSON travels as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum
from typing import Final, Literal, NamedTuple
from uuid import UUID

from ultimate_jobs.states import JobState


class _AnyTenant(Enum):
    ANY_TENANT = "any tenant"

    def __repr__(self) -> str:
        return "ANY_TENANT"


ANY_TENANT: Final = _AnyTenant.ANY_TENANT
"""For operators' surfaces: look in every tenant. ``None`` means the tenantless jobs only."""

TenantScope = str | None | Literal[_AnyTenant.ANY_TENANT]


class OnConflict(StrEnum):
    """What an enqueue does when a live job holds its key."""

    EXISTING = "existing"
    ERROR = "error"
    RERUN = "rerun"


@dataclass(frozen=True, slots=True)
class EnqueueRequest:
    """One run that is asked for.

    Attributes:
        payload: the validated inputs as JSON text.
        run_after: not before this instant; ``None`` means now.
        delay_ms: not before this long from the driver's own now; excludes ``run_after``.
    """

    id: UUID
    run_id: UUID
    name: str
    queue: str
    tenant: str | None
    key: str
    payload: str
    priority: int = 0
    max_attempts: int = 1
    run_after: datetime | None = None
    delay_ms: int = 0
    traceparent: str | None = None
    enqueued_by: str | None = None
    serial_key: str | None = None


@dataclass(frozen=True, slots=True)
class EnqueueAnswer:
    """What became of one request; ``deduped`` is ``None`` where it was staged and not yet known."""

    id: UUID
    run_id: UUID
    deduped: bool | None
    state: JobState
    same_input: bool | None


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """How much one worker wants to claim.

    Attributes:
        queues: the queues to look at; ``None`` means every queue that has work.
        names: the job names this worker can run; any other name stays untouched.
        limit: at most this many jobs.
    """

    worker: UUID
    names: tuple[str, ...]
    limit: int
    queues: tuple[str, ...] | None = None


class Claim(NamedTuple):
    """One claimed job. ``token`` is the number of this claim; every write for it carries both."""

    id: UUID
    run_id: UUID
    name: str
    queue: str
    tenant: str | None
    key: str
    payload: str
    worker: UUID
    token: int
    attempt: int
    max_attempts: int
    lost_leases: int
    retry_count: int
    priority: int
    due_at: datetime
    traceparent: str | None


class Completion(NamedTuple):
    """A body that returned; ``result`` is JSON text or ``None``."""

    id: UUID
    token: int
    result: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """What a failed attempt leaves behind, already cut to size and free of NUL."""

    error_class: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Deferral:
    """A body's own wish to run again later.

    Attributes:
        limit: so many a run may have; past them the job is ``dead``, and ``spent`` says why.
        reason: for the run's history.
    """

    limit: int
    reason: str
    spent: Failure


@dataclass(frozen=True, slots=True)
class Nack:
    """A claim given back without completion.

    Attributes:
        counts_as_attempt: the attempt is used up; otherwise it is taken back, never below 0.
        park: the run gave its worker back on purpose, state ``suspended``.
        dead_letter: no further attempt, state ``dead``.
        discard: no further attempt and no failure either, state ``cancelled``.
        delay_ms: not before this long from the driver's now.
        deferral: the body asked for it; counted apart, and it moves ``due_at``.
        failure: the error to store and to record as an event; ``None`` leaves
            ``last_error`` untouched and writes no event.
    """

    id: UUID
    token: int
    counts_as_attempt: bool = True
    park: bool = False
    dead_letter: bool = False
    discard: bool = False
    delay_ms: int = 0
    deferral: Deferral | None = None
    failure: Failure | None = None


class Written(StrEnum):
    """How a fenced write ended."""

    DONE = "done"
    LOST = "lost"
    """The claim is another's now; nothing changed."""
    BUSY = "busy"
    """Another transaction holds the row; nothing changed, write again."""


class WriteAnswer(NamedTuple):
    """What became of one ack or nack; ``state`` is set where it was written."""

    id: UUID
    token: int
    outcome: Written
    state: JobState | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """Whether the lease still stands, and which of the worker's jobs were asked to stop."""

    alive: bool
    cancel_requested: frozenset[UUID] = frozenset()


class CancelOutcome(StrEnum):
    """What a cancel did."""

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    """The job runs; it keeps its key until its body stops."""
    ALREADY_FINAL = "already_final"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class CancelAnswer:
    """What became of one id; ``state`` is the state after the call, ``None`` if not found."""

    id: UUID
    outcome: CancelOutcome
    state: JobState | None = None


@dataclass(frozen=True, slots=True)
class WorkerCard:
    """What a worker process says of itself when it takes its lease."""

    worker: UUID
    names: tuple[str, ...]
    queues: tuple[str, ...] | None
    hostname: str
    pid: int
    threads: int
    app_version: str = ""


@dataclass(frozen=True, slots=True)
class Rescue:
    """A job taken from an expired worker."""

    id: UUID
    name: str
    worker: UUID | None
    token: int
    lost_leases: int
    state: JobState
