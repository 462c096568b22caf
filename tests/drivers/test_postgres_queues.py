"""A worker that serves more queues than one claim looks into at first."""

from __future__ import annotations

import pytest

from tests.concurrency.conftest import register_worker
from tests.concurrency.requests import claim, request
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.types import OnConflict


@pytest.mark.django_db
@pytest.mark.parametrize("queues", [9, 70])
def test_claim_over_many_queues_with_one_job_each_takes_up_to_its_limit(queues: int) -> None:
    """A worker is not told that nothing more is due while other queues hold due jobs."""
    driver = PostgresDriver("default")
    worker = register_worker(driver)
    asked = [request(f"k{n}", queue=f"q{n:02}") for n in range(queues)]
    driver.enqueue(asked, on_conflict=OnConflict.EXISTING)

    claimed = claim(driver, worker, limit=queues + 5)

    assert {one.queue for one in claimed} == {one.queue for one in asked}


@pytest.mark.django_db
def test_claim_over_many_queues_takes_the_highest_priority_first() -> None:
    """The queue of the most urgent job is among those that are looked into."""
    driver = PostgresDriver("default")
    worker = register_worker(driver)
    driver.enqueue(
        [request(f"k{n}", queue=f"q{n:02}", priority=n % 50) for n in range(60)],
        on_conflict=OnConflict.EXISTING,
    )

    claimed = claim(driver, worker, limit=3)

    assert [one.priority for one in claimed] == [49, 48, 47]
