"""What operators ask and do, in every tenant; each id is answered in its own right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.db import Error as DatabaseError

from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.errors import (
    ArgumentInvalid,
    DatabaseUnavailable,
    JobNotFound,
    JobStateRefused,
    UltimateJobsError,
)
from ultimate_jobs.ids import new_id
from ultimate_jobs.records import (
    EventRecord,
    JobFilter,
    JobRecord,
    QueueState,
    QueueStats,
    UnreadableJob,
    WorkerRecord,
)
from ultimate_jobs.services import wakeups
from ultimate_jobs.services.explain import NOTHING, explain
from ultimate_jobs.services.obstacles import obstacles
from ultimate_jobs.states import LIVE, WAITING, JobState
from ultimate_jobs.types import ANY_TENANT, CancelOutcome


@dataclass(frozen=True, slots=True)
class Page:
    """Jobs, newest first; ``next_before`` asks for the page that follows, if there is one."""

    jobs: list[JobRecord | UnreadableJob]
    next_before: UUID | None
    now: datetime


@dataclass(frozen=True, slots=True)
class Trace:
    """One job with its history, and one sentence on where it stands."""

    job: JobRecord
    events: list[EventRecord]
    why: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one id; ``refusal`` says why nothing was done."""

    id: str
    did: str | None = None
    state: JobState | None = None
    run_id: UUID | None = None
    refusal: UltimateJobsError | None = None


@dataclass(frozen=True, slots=True)
class Overview:
    """Every queue with live or dead jobs or a pause, their sum, and the workers with a lease."""

    queues: list[QueueStats]
    total: QueueStats
    workers: list[WorkerRecord]
    paused: dict[str, QueueState]


def find(driver: Driver, criteria: JobFilter, *, limit: int) -> Page:
    """Return the newest matching jobs; a row that cannot be read is one of them.

    Raises:
        DatabaseUnavailable, JobsSchema: the database does not answer, or lacks our tables.
    """
    with reachable(driver):
        found = driver.introspection.find(criteria, limit=limit + 1)
        jobs = found[:limit]
        return Page(
            jobs=jobs,
            next_before=jobs[-1].id if len(found) > limit else None,
            now=driver.introspection.now(),
        )


def trace(driver: Driver, job_id: str) -> Trace:
    """Return one job of any tenant with its history.

    Raises:
        ArgumentInvalid, JobNotFound: it is no id, or nobody's.
        JobRowStatusUnknown: a newer release wrote its state.
        DatabaseUnavailable, JobsSchema: as ``find``.
    """
    asked = job_uuid(job_id)
    with reachable(driver):
        job = driver.introspection.get(asked, tenant=ANY_TENANT)
        if job is None:
            raise JobNotFound(job_id=asked)
        now = driver.introspection.now()
        return Trace(
            job=job,
            events=driver.introspection.events(asked),
            why=explain(
                job,
                driver.leases.workers(),
                now=now,
                paused=driver.queues.paused(),
                obstacles=obstacles(driver, job) if job.state in WAITING else NOTHING,
            ),
            now=now,
        )


def cancel(driver: Driver, ids: Sequence[str], *, by: str) -> list[Outcome]:
    """Cancel each job; one that was cancelled before is no refusal, one that ended otherwise is."""
    return [_answered(driver, id_, lambda asked: _cancel(driver, asked, by)) for id_ in _once(ids)]


def retry(driver: Driver, ids: Sequence[str], *, fresh: bool, by: str) -> list[Outcome]:
    """Bring each job back, in a transaction of its own; ``fresh`` under a new run."""
    return [
        _answered(driver, id_, lambda asked: _retry(driver, asked, fresh, by)) for id_ in _once(ids)
    ]


def overview(driver: Driver) -> Overview:
    """Return the counts of every queue and the live workers.

    Raises:
        DatabaseUnavailable, JobsSchema: as ``find``.
    """
    with reachable(driver):
        queues = driver.introspection.stats()
        workers = [one for one in driver.leases.workers() if not one.expired]
        paused = {one.queue: one for one in driver.queues.paused()}
    counted = {one.queue for one in queues}
    queues += [QueueStats(one, 0, 0, 0, 0, 0, None) for one in paused if one not in counted]
    queues.sort(key=lambda one: one.queue)
    return Overview(queues=queues, total=_total(queues), workers=workers, paused=paused)


def job_uuid(text: str) -> UUID:
    """Return an id as it was typed.

    Raises:
        ArgumentInvalid: it is no UUID.
    """
    try:
        return UUID(text)
    except ValueError:
        raise ArgumentInvalid(
            argument="ID", problem=f'"{text}" is no UUID', fix="manage.py jobs ls"
        ) from None


@contextmanager
def reachable(driver: Driver) -> Iterator[None]:
    """Turn what the database says instead of answering into ``DatabaseUnavailable``."""
    try:
        yield
    except DatabaseError as error:
        detail = (str(error).splitlines() or [type(error).__name__])[0]
        raise DatabaseUnavailable(alias=driver.alias or "default", detail=detail) from error


def _once(ids: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(ids))


def _answered(driver: Driver, id_: str, act: Callable[[UUID], Outcome]) -> Outcome:
    """One id that is refused must not keep the others from being done."""
    try:
        asked = job_uuid(id_)
        with reachable(driver):
            return act(asked)
    except UltimateJobsError as error:
        return Outcome(id=id_, refusal=error)


def _cancel(driver: Driver, job_id: UUID, by: str) -> Outcome:
    answer = driver.cancel([job_id], tenant=ANY_TENANT, by=by)[0]
    if answer.outcome is CancelOutcome.NOT_FOUND:
        raise JobNotFound(job_id=job_id)
    if answer.outcome is CancelOutcome.ALREADY_FINAL and answer.state is not JobState.CANCELLED:
        raise JobStateRefused(job_id=job_id, state=str(answer.state), verb="cancel", allowed=LIVE)
    return Outcome(id=str(job_id), did=answer.outcome.value, state=answer.state)


def _retry(driver: Driver, job_id: UUID, fresh: bool, by: str) -> Outcome:
    job = driver.introspection.retry(
        job_id, tenant=ANY_TENANT, by=by, fresh_run_id=new_id() if fresh else None
    )
    wakeups.announce(driver, {job.queue})
    return Outcome(id=str(job.id), did="retried", state=job.state, run_id=job.run_id)


def _total(queues: Sequence[QueueStats]) -> QueueStats:
    total = QueueStats("", 0, 0, 0, 0, 0, None)
    for one in queues:
        ages = (total.oldest_ready_seconds, one.oldest_ready_seconds)
        total = replace(
            total,
            depth=total.depth + one.depth,
            scheduled=total.scheduled + one.scheduled,
            running=total.running + one.running,
            dead=total.dead + one.dead,
            unknown=total.unknown + one.unknown,
            oldest_ready_seconds=max((age for age in ages if age is not None), default=None),
            estimated=total.estimated or one.estimated,
        )
    return total
