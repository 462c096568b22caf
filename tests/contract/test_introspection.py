"""Introspection: finding jobs and counting queues."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from ultimate_jobs.states import JobState
from ultimate_jobs.types import ANY_TENANT

from .harness import MINUTE_MS, Harness


def test_now_is_the_clock_that_decides_what_is_due(driver: Harness) -> None:
    """What a screen shows as now is the driver's own clock, wherever a test moved it."""
    driver.advance(90 * MINUTE_MS)

    with driver.timed() as span:
        now = driver.driver.introspection.now()

    assert span.covers(now)
    assert now.utcoffset() is not None


def test_get_of_an_unknown_id_finds_nothing(driver: Harness) -> None:
    """An id that does not exist is no error."""
    assert driver.driver.introspection.get(uuid4(), tenant=ANY_TENANT) is None


def test_find_lists_the_newest_first(driver: Harness) -> None:
    """The greatest id comes first, in whatever order the jobs were stored."""
    requests = [driver.request() for _ in range(4)]
    driver.ask(requests[2], requests[0])
    driver.ask(requests[3], requests[1])

    jobs = driver.find()

    assert [job.id for job in jobs] == [request.id for request in reversed(requests)]


def test_find_with_a_limit_and_before_pages_through_everything_once(driver: Harness) -> None:
    """Going on before the last id seen reaches every job exactly once."""
    requests = [driver.request() for _ in range(7)]
    driver.ask(*requests)

    pages, before = [], None
    for _ in range(4):
        page = driver.find(limit=3, before=before)
        pages.append([job.id for job in page])
        before = page[-1].id if page else before

    assert [len(page) for page in pages] == [3, 3, 1, 0]
    assert [job_id for page in pages for job_id in page] == [
        request.id for request in reversed(requests)
    ]


@pytest.mark.parametrize(
    ("criteria", "keys"),
    [
        ({}, "edcba"),
        ({"states": ("ready",)}, "ed"),
        ({"states": (JobState.RUNNING, JobState.DELAYED)}, "cb"),
        ({"states": ("dead",)}, "a"),
        ({"states": ("completed",)}, ""),
        ({"key": "c"}, "c"),
        ({"tenant": "t"}, "db"),
        ({"tenant": None}, "eca"),
        ({"tenant": "t", "states": ("ready",)}, "d"),
        ({"key": "absent"}, ""),
    ],
)
def test_find_with_criteria_lists_what_meets_all_of_them(
    driver: Harness, criteria: dict[str, Any], keys: str
) -> None:
    """Every criterion restricts, an unset one does not."""
    driver.job_in(JobState.DEAD, key="a")
    driver.job_in(JobState.RUNNING, key="b", tenant="t")
    driver.job_in(JobState.DELAYED, key="c")
    driver.job_in(JobState.READY, key="d", tenant="t")
    driver.job_in(JobState.READY, key="e")

    jobs = driver.find(**criteria)

    assert "".join(job.key for job in jobs) == keys


def test_find_by_name_and_by_queue_lists_only_those(driver: Harness) -> None:
    """A name is found in every queue, a queue with every name."""
    here = driver.enqueue().id
    named = driver.enqueue(name=f"{driver.name}_2").id
    queued = driver.enqueue(queue=f"{driver.queue}-2").id

    by_queue = driver.find()
    by_name = driver.find(queue=None, name=driver.name)
    by_both = driver.find(name=driver.name)

    assert [job.id for job in by_queue] == [named, here]
    assert [job.id for job in by_name] == [queued, here]
    assert [job.id for job in by_both] == [here]


def test_stats_of_a_queue_count_each_job_once(driver: Harness) -> None:
    """Every live or dead job is in exactly one count; what ended well is in none."""
    driver.job_in(JobState.DEAD)
    driver.job_in(JobState.COMPLETED)
    driver.job_in(JobState.CANCELLED)
    driver.job_in(JobState.SUSPENDED)
    driver.job_in(JobState.RUNNING)
    driver.job_in(JobState.DELAYED)
    driver.ask(driver.request(), driver.request())

    stats = driver.stats()

    assert stats is not None
    assert (stats.depth, stats.scheduled) == (2, 2)
    assert (stats.running, stats.dead, stats.estimated) == (1, 1, False)


def test_stats_of_delayed_and_parked_jobs_owe_them_when_due(driver: Harness) -> None:
    """Nobody has to promote a job for it to count as owed."""
    driver.job_in(JobState.SUSPENDED)
    driver.job_in(JobState.DELAYED)
    before = driver.stats()
    driver.advance(MINUTE_MS)

    after = driver.stats()

    assert before is not None
    assert after is not None
    assert (before.depth, before.scheduled, before.oldest_ready_seconds) == (0, 2, None)
    assert (after.depth, after.scheduled) == (2, 0)
    assert after.oldest_ready_seconds is not None


def test_stats_age_the_queue_by_its_oldest_due_time(driver: Harness) -> None:
    """The age is that of the job owed longest, and a shed does not make it younger."""
    shed = driver.running()
    driver.advance(30_000)
    driver.enqueue()
    driver.shed(shed)
    driver.advance(12_000)

    stats = driver.stats()

    assert stats is not None
    assert stats.depth == 2
    assert stats.oldest_ready_seconds == pytest.approx(42, abs=2)


def test_stats_of_a_queue_without_live_or_dead_jobs_are_absent(driver: Harness) -> None:
    """A queue that holds only history is not listed."""
    driver.job_in(JobState.COMPLETED)
    driver.job_in(JobState.CANCELLED)

    stats = driver.stats()

    assert stats is None


@pytest.mark.parametrize("state", [JobState.DEAD, JobState.RUNNING, JobState.SUSPENDED])
def test_stats_of_a_queue_with_one_job_list_it(driver: Harness, state: JobState) -> None:
    """One job of any counted kind is enough for its queue to be seen."""
    driver.job_in(state)

    stats = driver.stats()

    assert stats is not None
    assert stats.depth + stats.scheduled + stats.running + stats.dead == 1


def test_stats_of_several_queues_come_sorted_by_queue(driver: Harness) -> None:
    """One record per queue, in the order of their names."""
    queues = [f"{driver.queue}-{suffix}" for suffix in ("c", "a", "b")]
    for queue in queues:
        driver.enqueue(queue=queue)

    listed = [record.queue for record in driver.driver.introspection.stats()]

    assert [queue for queue in listed if queue in queues] == sorted(queues)
    assert len(listed) == len(set(listed))


def test_stats_without_workers_know_no_owed_job(driver: Harness) -> None:
    """Where nobody works, everything owed is unknown, and only what is owed."""
    driver.ask(driver.request(), driver.request(), driver.request(delay_ms=MINUTE_MS))

    stats = driver.stats()

    assert stats is not None
    assert (stats.depth, stats.scheduled, stats.unknown) == (2, 1, 2)


def test_stats_with_a_worker_count_the_names_it_lacks(driver: Harness) -> None:
    """A job whose name no live worker lists is owed and unknown."""
    driver.ask(driver.request(), driver.request(name=f"{driver.name}_new"))
    driver.start_worker(driver.name, f"{driver.name}_idle")

    stats = driver.stats()

    assert stats is not None
    assert (stats.depth, stats.unknown) == (2, 1)


def test_stats_after_the_lease_of_the_only_worker_know_nothing(driver: Harness) -> None:
    """A worker whose lease has ended knows no names."""
    driver.enqueue()
    driver.start_worker()
    before = driver.stats()
    driver.advance(driver.lease_ttl_ms)

    after = driver.stats()

    assert before is not None
    assert after is not None
    assert (before.unknown, after.unknown) == (0, 1)
