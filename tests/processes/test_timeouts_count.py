"""An attempt that took too long is a failed attempt, with its error, its wait and its end."""

from __future__ import annotations

import time

import pytest

from tests.processes.test_thread_locals import burst
from tests.processes.test_worker import declare, records
from ultimate_jobs import ANY_TENANT, JobContext, Retry, cancel
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.processes.worker import Worker
from ultimate_jobs.states import JobState


def _overrun(ctx: JobContext, number: int) -> None:
    ends_at = time.monotonic() + 20
    while time.monotonic() < ends_at:
        sum(range(100))


def test_timeout_waits_out_the_backoff_like_any_failure(memory: MemoryDriver) -> None:
    """It is not tried again at once."""
    slow = declare(_overrun, timeout=0.2, retry=Retry(attempts=2, backoff="fixed", delay=3600))
    slow.enqueue(number=1)

    worker = Worker(memory, burst=True, threads=1)
    assert worker.run()

    [job] = records(memory)
    assert (job.state, job.attempt) == (JobState.READY, 1)
    assert job.last_error is not None
    assert job.last_error.startswith("X_ATTEMPT_TIMEOUT: ")
    assert (job.run_at - job.updated_at).total_seconds() > 1000
    assert [event.type for event in memory.introspection.events(job.id)] == ["failed"]
    assert worker.tally.failed == 1


def test_timeouts_use_up_the_attempts(memory: MemoryDriver) -> None:
    """And the last one ends the job."""
    slow = declare(_overrun, timeout=0.2, retry=Retry(attempts=2, backoff="fixed", delay=0))
    slow.enqueue(number=1)

    assert Worker(memory, burst=True, threads=1).run()

    [job] = records(memory)
    assert (job.state, job.attempt, job.lost_leases) == (JobState.DEAD, 2, 0)
    assert [event.type for event in memory.introspection.events(job.id)] == ["failed", "dead"]


@pytest.mark.parametrize("attempts", [1, 5])
def test_timeout_of_a_cancelled_run_ends_it_cancelled(memory: MemoryDriver, attempts: int) -> None:
    """Neither dead nor tried again: the cancel came first."""

    def cancelled_meanwhile(ctx: JobContext, number: int) -> None:
        cancel(ctx.job_id, tenant=ANY_TENANT)
        _overrun(ctx, number)

    retry = Retry(attempts=attempts, backoff="fixed", delay=0)
    declare(cancelled_meanwhile, timeout=0.2, retry=retry).enqueue(number=1)

    assert Worker(memory, burst=True, threads=1).run()

    [job] = records(memory)
    assert job.state is JobState.CANCELLED


@pytest.mark.parametrize("error", [ValueError("own"), SystemExit(1), KeyboardInterrupt()])
def test_failure_within_the_time_is_the_bodys_own(
    memory: MemoryDriver, error: BaseException
) -> None:
    """A timeout that never came changes nothing of how a body fails."""

    def fails(ctx: JobContext, number: int) -> None:
        raise error

    declare(fails, timeout=60, retry=Retry(attempts=1)).enqueue(number=1)

    burst(memory)

    [job] = records(memory)
    assert job.state is JobState.DEAD
    assert job.last_error is not None
    assert job.last_error.startswith(type(error).__name__)
