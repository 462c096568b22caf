"""One sentence on where a job stands: what it waits for, or how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from ultimate_jobs.records import JobRecord, QueueState, WorkerRecord
from ultimate_jobs.services.obstacles import FullLimit, Obstacles
from ultimate_jobs.states import JobState

# So many holders of a limit are named.
MOST_NAMED = 5
NOTHING = Obstacles()


def explain(
    job: JobRecord,
    workers: Sequence[WorkerRecord],
    *,
    now: datetime,
    paused: Sequence[QueueState] = (),
    obstacles: Obstacles = NOTHING,
) -> str:
    """Return why a waiting job is not running, or what became of another.

    Args:
        workers: every worker lease, the expired ones included.
        now: the driver's own now; Python's clock does not decide what is due.
        paused: every paused queue.
        obstacles: what else stands in the way of a job that is due.
    """
    if job.state is JobState.RUNNING:
        return _running(job, workers)
    if job.finished_at is not None:
        return _ended(job, job.finished_at)
    if job.run_at > now:
        return _not_yet(job, now)
    pause = next((one for one in paused if one.queue == job.queue), None)
    waits = _waits_for(job, _live(workers), obstacles) if pause is None else _is_paused(pause)
    return f"It is owed since {_at(job.due_at)} and {waits}."


def serving(job: JobRecord, workers: Iterable[WorkerRecord]) -> list[WorkerRecord]:
    """Return the workers that know the job's name and look at its queue."""
    return [one for one in workers if _knows(one, job.name) and _looks_at(one, job.queue)]


def _running(job: JobRecord, workers: Sequence[WorkerRecord]) -> str:
    holder = next((one for one in _live(workers) if one.worker == job.worker), None)
    asked = None
    if job.cancel_requested_at is not None:
        asked = f"was asked at {_at(job.cancel_requested_at)} to stop"
    if holder is None:
        gone = f"Its worker {job.worker} has no valid lease any more; "
        if asked is not None:
            return f"{gone}it {asked}, and the next rescue by a live worker ends it cancelled."
        return f"{gone}the next rescue by a live worker takes the job back."
    since = f"It runs since {_at(job.claimed_at)} on worker {job.worker}"
    if asked is not None:
        return f"{since} and {asked}."
    return f"{since}, attempt {job.attempt} of {job.max_attempts}."


def _ended(job: JobRecord, finished_at: datetime) -> str:
    ended = f"It ended {job.state.value} at {_at(finished_at)}"
    if job.state is not JobState.DEAD:
        return f"{ended}."
    lost = f" and {job.lost_leases} lost workers" if job.lost_leases else ""
    return f"{ended}, after {job.attempt} of {job.max_attempts} attempts{lost}."


def _not_yet(job: JobRecord, now: datetime) -> str:
    until = _at(job.run_at)
    if job.state is JobState.SUSPENDED:
        return f"It is parked until {until}."
    if job.state is JobState.DELAYED:
        return f"It is scheduled for {until}."
    # A shed moves only run_at; a failure and a rescue move due_at too.
    if job.due_at <= now:
        return f"It was handed back, uncounted, and is put off until {until}."
    if job.attempt == 0:
        return f"It waits until {until}, because it lost its worker."
    return f"It waits until {until}, after {job.attempt} of {job.max_attempts} attempts failed."


def _is_paused(pause: QueueState) -> str:
    return f"its queue {pause.queue} is paused, since {_at(pause.paused_at)} by {pause.paused_by}"


def _waits_for(job: JobRecord, live: Sequence[WorkerRecord], obstacles: Obstacles) -> str:
    if not live:
        return "no worker is alive"
    if not any(_knows(one, job.name) for one in live):
        return f"no live worker knows the name {job.name}"
    able = serving(job, live)
    if not able:
        return f"no live worker that knows its name looks at the queue {job.queue}"
    if obstacles.is_locked:
        return "is locked by an open transaction, whose end it waits for"
    if obstacles.behind is not None:
        return f"waits behind job {obstacles.behind} of the same serial key"
    if obstacles.full:
        return " and ".join(_is_full(one) for one in obstacles.full)
    threads = sum(_threads(one) for one in able)
    running = sum(one.running for one in able)
    noun = "worker" if len(able) == 1 else "workers"
    return f"waits for its turn at {len(able)} {noun} with {running} jobs on {threads} threads"


def _is_full(limit: FullLimit) -> str:
    jobs, most = limit.jobs, limit.scope.most
    named = ", ".join(str(job) for job in jobs[:MOST_NAMED])
    more = f" and {len(jobs) - MOST_NAMED} more" if len(jobs) > MOST_NAMED else ""
    noun = "job" if len(jobs) == 1 else "jobs"
    what = f"limit {limit.scope.label} ({len(jobs)} of {most})"
    if limit.scope.period_ms is None:
        return f"{what} is held by {noun} {named}{more}"
    return f"{what} is used up until {_at(limit.free_at)} by {noun} {named}{more}"


def _live(workers: Iterable[WorkerRecord]) -> list[WorkerRecord]:
    return [one for one in workers if not one.expired]


def _knows(worker: WorkerRecord, name: str) -> bool:
    return name in _listed(worker.info, "names")


def _looks_at(worker: WorkerRecord, queue: str) -> bool:
    return worker.info.get("queues") is None or queue in _listed(worker.info, "queues")


def _threads(worker: WorkerRecord) -> int:
    threads = worker.info.get("threads")
    return threads if isinstance(threads, int) else 0


def _listed(info: dict[str, Any], key: str) -> Sequence[Any]:
    # What a worker of another release says of itself may have another form.
    value = info.get(key)
    return value if isinstance(value, list | tuple) else ()


def _at(moment: datetime | None) -> str:
    return "?" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
