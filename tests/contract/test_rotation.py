"""Between the tenants of one queue and priority, claims take turns."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest

from ultimate_jobs.drivers.base import Claimer
from ultimate_jobs.types import ClaimRequest

from .harness import Harness


def _claimer(driver: Harness) -> Claimer:
    return driver.driver.claimer(queues=(driver.queue,), names=(driver.name,), survey_every=0.25)


def _fill(driver: Harness, tenant: str | None, count: int, priority: int = 0) -> list[UUID]:
    return [driver.enqueue(tenant=tenant, priority=priority).id for _ in range(count)]


def test_claim_takes_from_every_tenant_that_has_work(driver: Harness) -> None:
    """A backlog of one tenant does not hide what another asked for later."""
    _fill(driver, "big", 40)
    small = _fill(driver, "small", 3)
    none = _fill(driver, None, 3)

    claims = _claimer(driver).claim(driver.start_worker(), 20)

    assert len(claims) == 20
    assert {*small, *none} <= {claim.id for claim in claims}


def test_claimed_jobs_of_two_tenants_alternate(driver: Harness) -> None:
    """The order in which a worker starts them is fair too, not only the set of them."""
    _fill(driver, "big", 40)
    _fill(driver, "small", 3)

    claims = _claimer(driver).claim(driver.start_worker(), 20)

    assert Counter(claim.tenant for claim in claims[:6]) == {"big": 3, "small": 3}


def test_claims_of_one_job_at_a_time_take_turns(driver: Harness) -> None:
    """A worker with one thread is as fair as one with many."""
    _fill(driver, "big", 10)
    _fill(driver, "small", 3)
    claimer, worker = _claimer(driver), driver.start_worker()

    tenants = [claimer.claim(worker, 1)[0].tenant for _ in range(6)]

    assert sorted(tenants) == ["big"] * 3 + ["small"] * 3
    assert tenants[0] != tenants[1]


def test_priority_beats_the_turn(driver: Harness) -> None:
    """Whoever's turn it is, the higher priority goes first."""
    _fill(driver, "small", 2)
    urgent = _fill(driver, "big", 3, priority=5)

    claims = _claimer(driver).claim(driver.start_worker(), 3)

    assert {claim.id for claim in claims} == set(urgent)


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_one_tenants_jobs_keep_their_order_whatever_others_have(
    driver: Harness, limit: int
) -> None:
    """Turns are taken between tenants, never within one."""
    expected = {tenant: _fill(driver, tenant, 6) for tenant in ("a", "b", "c")}
    claimer, worker = _claimer(driver), driver.start_worker()

    taken: list[tuple[str | None, UUID]] = []
    while len(taken) < 18:
        claims = claimer.claim(worker, limit)
        assert claims
        taken += [(claim.tenant, claim.id) for claim in claims]

    for tenant, ids in expected.items():
        assert [job_id for owner, job_id in taken if owner == tenant] == ids


def test_many_tenants_are_all_served_before_one_is_served_twice_over(driver: Harness) -> None:
    """With more tenants than a claim has room for, the rotation goes on where it was."""
    for number in range(12):
        _fill(driver, f"t{number:02}", 4)
    claimer, worker = _claimer(driver), driver.start_worker()

    served = Counter(claim.tenant for _ in range(3) for claim in claimer.claim(worker, 4))

    assert len(served) == 12


def test_one_claim_of_the_driver_rotates_as_well(driver: Harness) -> None:
    """The verb without a memory is fair within its own limit."""
    _fill(driver, "big", 10)
    [small] = _fill(driver, "small", 1)
    request = ClaimRequest(driver.start_worker(), (driver.name,), 4, queues=(driver.queue,))

    assert small in {claim.id for claim in driver.driver.claim(request)}
