"""Pause and resume: what is said of a queue keeps its jobs from being claimed, and nothing else."""

from __future__ import annotations

import pytest

from ultimate_jobs.records import QueueState
from ultimate_jobs.states import JobState
from ultimate_jobs.types import ClaimRequest, Written

from .harness import MINUTE_MS, Harness


def paused_names(driver: Harness) -> list[str]:
    return [one.queue for one in driver.driver.queues.paused()]


def test_pause_stops_claims_until_the_queue_is_resumed(driver: Harness) -> None:
    """Whoever looks into the queue by name finds nothing, and afterwards everything."""
    job_id = driver.enqueue().id

    driver.driver.queues.pause(driver.queue, by="ops")
    while_paused = driver.claim()
    driver.driver.queues.resume(driver.queue)

    assert while_paused == []
    assert [claim.id for claim in driver.claim()] == [job_id]


def test_pause_stops_claims_of_workers_of_every_queue(driver: Harness) -> None:
    """A worker that serves whatever has work passes the paused queue by, and takes the others."""
    driver.enqueue()
    other = driver.enqueue(queue=f"{driver.queue}-other").id
    driver.driver.queues.pause(driver.queue, by="ops")

    claimed = driver.driver.claim(
        ClaimRequest(worker=driver.start_worker(), names=(driver.name,), limit=10)
    )

    assert [claim.id for claim in claimed] == [other]


@pytest.mark.parametrize("state", [JobState.DELAYED, JobState.SUSPENDED])
def test_pause_stops_claims_of_jobs_whose_time_comes_meanwhile(
    driver: Harness, state: JobState
) -> None:
    """What was scheduled or parked waits for the queue, too."""
    job_id = driver.job_in(state)
    driver.driver.queues.pause(driver.queue, by="ops")
    driver.advance(MINUTE_MS + 1)

    while_paused = driver.claim()
    driver.driver.queues.resume(driver.queue)

    assert while_paused == []
    assert [claim.id for claim in driver.claim()] == [job_id]


def test_pause_lets_running_jobs_go_on(driver: Harness) -> None:
    """What was claimed before ends as it would have."""
    claim = driver.running()

    driver.driver.queues.pause(driver.queue, by="ops")

    assert driver.complete(claim).outcome is Written.DONE
    assert driver.get(claim.id).state is JobState.COMPLETED


def test_pause_lets_enqueues_in_and_they_count(driver: Harness) -> None:
    """Nothing is refused, and the depth that alarms read goes on growing."""
    driver.driver.queues.pause(driver.queue, by="ops")

    answer = driver.enqueue()

    assert answer.state is JobState.READY
    stats = driver.stats()
    assert stats is not None
    assert stats.depth == 1


def test_pause_twice_keeps_who_was_first(driver: Harness) -> None:
    """The second one changes nothing and is told so."""
    with driver.timed() as span:
        first = driver.driver.queues.pause(driver.queue, by="ann")
    driver.advance(MINUTE_MS)

    second = driver.driver.queues.pause(driver.queue, by="bob")

    assert (first.changed, second.changed) == (True, False)
    assert second == QueueState(driver.queue, first.paused_at, "ann", changed=False)
    assert span.covers(second.paused_at)


def test_resume_of_a_queue_that_goes_on_changes_nothing(driver: Harness) -> None:
    """Neither one that nobody spoke of, nor one that was resumed before."""
    never = driver.driver.queues.resume(driver.queue)
    driver.driver.queues.pause(driver.queue, by="ops")
    once = driver.driver.queues.resume(driver.queue)
    twice = driver.driver.queues.resume(driver.queue)

    assert [one.changed for one in (never, once, twice)] == [False, True, False]
    assert driver.queue not in paused_names(driver)


def test_pause_after_a_resume_begins_anew(driver: Harness) -> None:
    """It has its own time and its own author."""
    driver.driver.queues.pause(driver.queue, by="ann")
    driver.driver.queues.resume(driver.queue)
    driver.advance(MINUTE_MS)

    with driver.timed() as span:
        again = driver.driver.queues.pause(driver.queue, by="bob")

    assert again.changed
    assert again.paused_by == "bob"
    assert span.covers(again.paused_at)


def test_paused_queues_are_listed_by_name(driver: Harness) -> None:
    """Also those that hold no job."""
    names = sorted(f"{driver.queue}-{letter}" for letter in "cab")
    for name in names:
        driver.driver.queues.pause(name, by="ops")

    assert [one for one in paused_names(driver) if one.startswith(driver.queue)] == names
