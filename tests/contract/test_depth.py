"""Depth as a bound sees it: what waits for a worker now, counted up to a cap."""

from __future__ import annotations

import pytest

from ultimate_jobs.states import JobState

from .harness import MINUTE_MS, Harness


def depth(driver: Harness, *, cap: int = 100) -> int:
    return driver.driver.queues.depth(driver.queue, cap=cap)


def test_depth_of_an_empty_queue_is_nothing(driver: Harness) -> None:
    """Jobs of other queues are not its own."""
    driver.enqueue(queue=f"{driver.queue}-other")

    assert depth(driver) == 0


def test_depth_counts_what_is_owed_of_every_priority_and_tenant(driver: Harness) -> None:
    """One bound for the whole queue."""
    for priority in (-100, 0, 7):
        for tenant in (None, "acme", "globex"):
            driver.enqueue(priority=priority, tenant=tenant)

    assert depth(driver) == 9


def test_depth_stops_counting_at_the_cap(driver: Harness) -> None:
    """It costs no more than the bound, whatever the backlog, ready or due since it was delayed."""
    for priority in (0, 1):
        for _ in range(3):
            driver.enqueue(priority=priority)
            driver.enqueue(priority=priority, delay_ms=MINUTE_MS)
    driver.advance(MINUTE_MS + 1)

    assert [depth(driver, cap=cap) for cap in (1, 5, 8, 12, 50)] == [1, 5, 8, 12, 12]


@pytest.mark.parametrize("state", [JobState.DELAYED, JobState.SUSPENDED])
def test_depth_counts_what_is_scheduled_only_when_its_time_has_come(
    driver: Harness, state: JobState
) -> None:
    """Reminders for next month do not fill a queue."""
    driver.job_in(state)

    before = depth(driver)
    driver.advance(MINUTE_MS + 1)

    assert (before, depth(driver)) == (0, 1)


def test_depth_counts_what_waits_for_its_backoff(driver: Harness) -> None:
    """A queue whose jobs all fail is as full as one that nobody serves."""
    driver.fail(driver.running(), delay_ms=MINUTE_MS)

    assert depth(driver) == 1


@pytest.mark.parametrize(
    "state", [JobState.RUNNING, JobState.COMPLETED, JobState.DEAD, JobState.CANCELLED]
)
def test_depth_counts_nothing_that_does_not_wait(driver: Harness, state: JobState) -> None:
    """Neither what runs nor what has ended."""
    if state is JobState.RUNNING:
        driver.running()
    else:
        driver.job_in(state)

    assert depth(driver) == 0


def test_held_tells_which_keys_a_live_job_holds(driver: Harness) -> None:
    """In the order of the requests, in the namespace of name, tenant and key."""
    driver.enqueue(key="k")
    driver.enqueue(key="k", tenant="acme")
    driver.cancel(driver.enqueue(key="gone").id)

    asked = [
        driver.request(key="free"),
        driver.request(key="k"),
        driver.request(key="gone"),
        driver.request(key="k", tenant="acme"),
        driver.request(key="k", tenant="globex"),
        driver.request(key="k", name=f"{driver.name}_other"),
    ]

    assert driver.driver.queues.held(asked) == [False, True, False, True, False, False]


def test_held_counts_a_running_job(driver: Harness) -> None:
    """It is live, so an enqueue of its key adds no second one."""
    driver.running(key="k")

    assert driver.driver.queues.held([driver.request(key="k")]) == [True]
