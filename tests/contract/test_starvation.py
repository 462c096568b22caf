"""Priorities are strict: what more urgent work keeps from starting is seen by its age."""

from __future__ import annotations

import pytest

from .harness import MINUTE_MS, Harness


def test_stats_under_a_steady_stream_of_urgent_jobs_age_by_the_one_that_never_starts(
    driver: Harness,
) -> None:
    """The alarm on the age rings, however quickly everything else is done."""
    starved = driver.enqueue(priority=-10)
    worker = driver.start_worker()

    for _ in range(5):
        driver.enqueue(priority=10)
        driver.advance(MINUTE_MS)
        driver.driver.heartbeat(worker)
        claim = driver.claim_one(worker)
        assert claim.id != starved.id
        driver.complete(claim)

    stats = driver.stats()
    assert stats is not None
    assert stats.depth == 1
    assert stats.oldest_ready_seconds == pytest.approx(300, abs=5)
