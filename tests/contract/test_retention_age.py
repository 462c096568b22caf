"""The age of a finished job counts from its end."""

from __future__ import annotations

import pytest

from ultimate_jobs.conf import DAY_MS, RetentionOptions
from ultimate_jobs.ids import FIRST_ID, LAST_ID
from ultimate_jobs.records import Pruned
from ultimate_jobs.states import JobState
from ultimate_jobs.types import ANY_TENANT

from .harness import Harness

MONTH_MS = 30 * DAY_MS
MONTH = RetentionOptions(completed_ms=MONTH_MS, cancelled_ms=MONTH_MS, dead_ms=MONTH_MS)


def prune(driver: Harness) -> Pruned:
    return driver.driver.retention.prune(MONTH, after=FIRST_ID, through=LAST_ID, limit=1000)


@pytest.mark.parametrize("waits", [JobState.READY, JobState.DELAYED, JobState.SUSPENDED])
def test_prune_of_a_job_that_waited_longer_than_its_period_counts_from_its_end(
    driver: Harness, waits: JobState
) -> None:
    """It is there for a whole period after it has ended, however late that was."""
    job_id = driver.job_in(waits)
    driver.advance(2 * MONTH_MS)
    driver.complete(driver.claim_one())

    at_its_end = prune(driver)
    driver.advance(MONTH_MS - 60_000)
    before_its_time = prune(driver)
    there = driver.driver.introspection.get(job_id, tenant=ANY_TENANT)
    driver.advance(120_000)
    after = prune(driver)

    assert at_its_end == before_its_time == Pruned()
    assert there is not None
    assert after.completed == 1
    assert driver.driver.introspection.get(job_id, tenant=ANY_TENANT) is None
