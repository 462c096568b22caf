"""Contract: a worker can ask what runs under it."""

from __future__ import annotations

from .harness import Harness


def test_claims_of_worker_are_what_runs_under_it(driver: Harness) -> None:
    """What it completed, gave back or lost is not among them, nor what another runs."""
    worker, other = driver.start_worker(), driver.start_worker()
    claims = [driver.running(worker) for _ in range(4)]
    driver.running(other)
    driver.complete(claims[0])
    driver.fail(claims[1], delay_ms=60_000)

    held = driver.driver.leases.claims(worker)

    assert sorted(held) == sorted((claim.id, claim.token) for claim in claims[2:])
