"""Why a job is not running, in one sentence, over a driver whose clock the test moves."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.contract.harness import MINUTE_MS, Harness, MemoryHarness
from ultimate_jobs import JobContext, Limiter, job
from ultimate_jobs.ids import new_id
from ultimate_jobs.services import operators
from ultimate_jobs.services.limits import need_of
from ultimate_jobs.slots import SlotNeed
from ultimate_jobs.states import JobState
from ultimate_jobs.types import ANY_TENANT, WorkerCard


@pytest.fixture
def queue() -> Harness:
    """The memory driver, whose time stands still."""
    return MemoryHarness()


def why(queue: Harness, job_id: UUID) -> str:
    return operators.trace(queue.driver, str(job_id)).why


def start_worker(queue: Harness, *, names: tuple[str, ...], queues: tuple[str, ...] | None) -> None:
    card = WorkerCard(
        worker=UUID(int=len(queue.driver.leases.workers())),
        names=names,
        queues=queues,
        hostname="host-1",
        pid=1,
        threads=4,
    )
    queue.driver.leases.register(card)


def test_explain_without_workers_says_that_none_is_alive(queue) -> None:
    """The most common reason comes first."""
    job_id = queue.enqueue().id

    assert why(queue, job_id).endswith("and no worker is alive.")


def test_explain_with_only_an_expired_worker_says_that_none_is_alive(queue) -> None:
    """A lease that has ended serves nobody."""
    queue.start_worker()
    job_id = queue.enqueue().id
    queue.advance(queue.lease_ttl_ms)

    assert why(queue, job_id).endswith("and no worker is alive.")


def test_explain_of_a_name_no_worker_knows_says_so(queue) -> None:
    """A rolling deploy leaves such jobs in the queue, untouched."""
    start_worker(queue, names=("another",), queues=None)
    job_id = queue.enqueue().id

    assert why(queue, job_id).endswith(f"and no live worker knows the name {queue.name}.")


def test_explain_of_a_queue_no_worker_looks_at_says_so(queue) -> None:
    """The name is known, but only in other queues."""
    start_worker(queue, names=(queue.name,), queues=("another",))
    job_id = queue.enqueue().id

    assert why(queue, job_id).endswith(
        f"and no live worker that knows its name looks at the queue {queue.queue}."
    )


def test_explain_of_a_job_in_line_tells_how_busy_its_workers_are(queue) -> None:
    """Nothing is wrong but the load."""
    queue.running(queue.start_worker())
    start_worker(queue, names=(queue.name,), queues=None)
    job_id = queue.enqueue().id

    assert why(queue, job_id).endswith(
        "and waits for its turn at 2 workers with 1 jobs on 8 threads."
    )


def test_explain_of_a_delayed_job_tells_until_when(queue) -> None:
    """The instant, in UTC and to the second."""
    job_id = queue.job_in(JobState.DELAYED)

    assert why(queue, job_id) == "It is scheduled for 2026-01-01 00:01:00 UTC."


def test_explain_of_a_delayed_job_that_is_due_tells_what_it_waits_for(queue) -> None:
    """Its state is still ``delayed``, and it is owed."""
    job_id = queue.job_in(JobState.DELAYED)
    queue.advance(2 * MINUTE_MS)

    assert why(queue, job_id) == (
        "It is owed since 2026-01-01 00:01:00 UTC and no worker is alive."
    )


def test_explain_of_a_parked_job_tells_until_when(queue) -> None:
    """A parked job gave its worker back on purpose."""
    job_id = queue.job_in(JobState.SUSPENDED)

    assert why(queue, job_id) == "It is parked until 2026-01-01 00:01:00 UTC."


def test_explain_of_a_backoff_tells_the_attempts(queue) -> None:
    """It failed and will be tried again."""
    claim = queue.running(max_attempts=3)
    queue.fail(claim, delay_ms=MINUTE_MS)

    assert why(queue, claim.id) == (
        "It waits until 2026-01-01 00:01:00 UTC, after 1 of 3 attempts failed."
    )


def test_explain_of_a_shed_tells_that_it_was_handed_back(queue) -> None:
    """A shed moves only the instant before which it may not run."""
    claim = queue.running()
    queue.shed(claim)

    assert why(queue, claim.id) == (
        "It was handed back, uncounted, and is put off until 2026-01-01 00:01:00 UTC."
    )


def test_explain_of_a_running_job_names_its_worker(queue) -> None:
    """Who has it, since when, and at which attempt."""
    claim = queue.running(max_attempts=3)

    assert why(queue, claim.id) == (
        f"It runs since 2026-01-01 00:00:00 UTC on worker {claim.worker}, attempt 1 of 3."
    )


def test_explain_of_a_running_job_that_is_cancelled_tells_when_it_was_asked(queue) -> None:
    """It runs until its body looks."""
    claim = queue.running()
    queue.cancel(claim.id)

    assert why(queue, claim.id).endswith("and was asked at 2026-01-01 00:00:00 UTC to stop.")


def test_explain_of_a_job_whose_worker_died_tells_that_it_will_be_rescued(queue) -> None:
    """The state still says ``running``, and nobody runs it."""
    claim = queue.running()
    queue.advance(queue.lease_ttl_ms)

    assert "has no valid lease any more" in why(queue, claim.id)


@pytest.mark.parametrize(
    ("state", "end"),
    [
        (JobState.COMPLETED, "It ended completed at 2026-01-01 00:00:00 UTC."),
        (JobState.CANCELLED, "It ended cancelled at 2026-01-01 00:00:00 UTC."),
        (JobState.DEAD, "It ended dead at 2026-01-01 00:00:00 UTC, after 1 of 3 attempts."),
    ],
)
def test_explain_of_an_ended_job_tells_how(queue, state: JobState, end: str) -> None:
    """What is over waits for nothing."""
    job_id = queue.job_in(state, max_attempts=3)

    assert why(queue, job_id) == end


def test_explain_of_a_job_that_killed_its_workers_tells_how_often(queue) -> None:
    """Lost leases have a cap of their own."""
    claim = queue.running()
    rescue = queue.lose_to_the_cap(claim)

    assert f"and {rescue.lost_leases} lost workers." in why(queue, claim.id)


def test_explain_of_a_cancelled_job_whose_worker_is_gone_tells_of_the_request(queue) -> None:
    """The rescue ends it: whoever asked need not ask again."""
    worker = queue.start_worker()
    job_id = queue.running(worker).id
    queue.driver.cancel([job_id], tenant=ANY_TENANT, by="cli")
    queue.advance(queue.lease_ttl_ms)

    assert why(queue, job_id) == (
        f"Its worker {worker} has no valid lease any more; it was asked at "
        "2026-01-01 00:00:00 UTC to stop, and the next rescue by a live worker ends it cancelled."
    )
    queue.driver.leases.rescue(limit=1)
    assert why(queue, job_id).startswith("It ended cancelled at")


@pytest.mark.parametrize("with_worker", [True, False])
def test_explain_of_a_paused_queue_names_who_paused_it(queue, with_worker: bool) -> None:
    """Before all else: no worker would help."""
    if with_worker:
        queue.start_worker()
    job_id, other = queue.enqueue().id, queue.enqueue(queue="another").id
    queue.driver.queues.pause(queue.queue, by="ann")

    assert f"and its queue {queue.queue} is paused, since 2026-" in why(queue, job_id)
    assert why(queue, job_id).endswith(" UTC by ann.")
    assert "paused" not in why(queue, other)


def test_explain_of_a_scheduled_job_in_a_paused_queue_tells_its_time_first(queue) -> None:
    """It would not start now in any case."""
    job_id = queue.enqueue(delay_ms=MINUTE_MS).id
    queue.driver.queues.pause(queue.queue, by="ann")

    before = why(queue, job_id)
    queue.advance(MINUTE_MS)

    assert before.startswith("It is scheduled for")
    assert "is paused" in why(queue, job_id)


def due_job(queue: Harness, **options: Any) -> UUID:
    """Declare the harness's job with these limits, and enqueue it where a worker serves it."""

    @job(key="{n}", name=queue.name, queue=queue.queue, **options)
    def limited(ctx: JobContext, n: int) -> None: ...

    queue.start_worker()
    return queue.enqueue().id


def hold(queue: Harness, waiting: UUID, count: int) -> list[UUID]:
    """Take so many of the slots that a job waits for."""
    scopes = need_of(queue.get(waiting)).scopes
    needs = [SlotNeed(new_id(), scopes) for _ in range(count)]
    return list(queue.driver.slots.take(queue.start_worker(), needs))


def test_explain_of_a_full_limit_names_who_holds_it(own_registry, queue) -> None:
    """Which limit, how much of it, and by whom: one look tells what to wait for."""
    waiting = due_job(queue, concurrency=2)
    first, second = hold(queue, waiting, 2)

    assert why(queue, waiting).endswith(
        f"and limit concurrency of {queue.name} (2 of 2) is held by jobs {first}, {second}."
    )


def test_explain_of_a_limit_with_room_says_nothing_of_it(own_registry, queue) -> None:
    """A limit that is not full keeps nobody waiting."""
    waiting = due_job(queue, concurrency=2)
    hold(queue, waiting, 1)

    assert "waits for its turn" in why(queue, waiting)


def test_explain_of_a_limit_with_many_holders_names_the_first(own_registry, queue) -> None:
    """A sentence stays a sentence."""
    waiting = due_job(queue, concurrency=8)
    holders = hold(queue, waiting, 8)

    assert why(queue, waiting).endswith(f"{holders[4]} and 3 more.")


def test_explain_of_a_rate_says_until_when_it_is_used_up(own_registry, queue) -> None:
    """Nobody gives a start back; it counts until then."""
    waiting = due_job(queue, limits=[Limiter("smtp", rate=1, period=60)])
    [holder] = hold(queue, waiting, 1)

    assert 'limit rate of limiter "smtp" (1 of 1) is used up until ' in why(queue, waiting)
    assert why(queue, waiting).endswith(f"UTC by job {holder}.")


def test_explain_of_a_lane_names_the_job_before(own_registry, queue) -> None:
    """The job to look at is the one that comes first."""
    first = queue.enqueue(serial_key=":a").id
    second = queue.enqueue(serial_key=":a").id
    queue.start_worker()

    assert why(queue, second).endswith(f"and waits behind job {first} of the same serial key.")
    assert "waits for its turn" in why(queue, first)
