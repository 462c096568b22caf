"""One sentence on where a job stands: what it waits for, or how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from ultimate_jobs.states import JobState
from ultimate_jobs.types import JobRecord, WorkerRecord


def explain(job: JobRecord, workers: Sequence[WorkerRecord], *, now: datetime) -> str:
    """Return why a waiting job is not running, or what became of another.

    Args:
        workers: every worker lease, the expired ones included.
        now: the driver's own now; Python's clock does not decide what is due.
    """
    if job.state is JobState.RUNNING:
        return _running(job, workers)
    if job.finished_at is not None:
        return _ended(job, job.finished_at)
    if job.run_at > now:
        return _not_yet(job, now)
    return f"It is owed since {_at(job.due_at)} and {_waits_for(job, _live(workers))}."


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


def _waits_for(job: JobRecord, live: Sequence[WorkerRecord]) -> str:
    if not live:
        return "no worker is alive"
    if not any(_knows(one, job.name) for one in live):
        return f"no live worker knows the name {job.name}"
    able = serving(job, live)
    if not able:
        return f"no live worker that knows its name looks at the queue {job.queue}"
    threads = sum(_threads(one) for one in able)
    running = sum(one.running for one in able)
    noun = "worker" if len(able) == 1 else "workers"
    return f"waits for its turn at {len(able)} {noun} with {running} jobs on {threads} threads"


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
