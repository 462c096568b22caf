"""Fences: what a claim may write once it is another's, which is nothing."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

from ultimate_jobs.types import Claim, WriteAnswer, Written

from .harness import MINUTE_MS, Harness

Write = Callable[[Harness, Claim], WriteAnswer]
Lose = Callable[[Harness, Claim], Claim]

WRITES = {
    "ack": lambda driver, claim: driver.complete(claim, '"late"'),
    "fail": lambda driver, claim: driver.fail(claim),
    "shed": lambda driver, claim: driver.shed(claim),
    "park": lambda driver, claim: driver.park(claim),
    "dead": lambda driver, claim: driver.bury(claim),
}


def _by_another_worker(driver: Harness, claim: Claim) -> Claim:
    return claim._replace(worker=driver.start_worker())


def _with_the_next_token(_: Harness, claim: Claim) -> Claim:
    return claim._replace(token=claim.token + 1)


def _with_an_old_token(driver: Harness, claim: Claim) -> Claim:
    driver.shed(claim, delay_ms=0)
    again = driver.claim_one(claim.worker)
    assert again.id == claim.id
    return claim


def _of_an_unknown_job(_: Harness, claim: Claim) -> Claim:
    return claim._replace(id=uuid4())


def _after_rescue(driver: Harness, claim: Claim) -> Claim:
    driver.advance(driver.lease_ttl_ms)
    assert claim.id in [rescue.id for rescue in driver.rescue()]
    return claim


def _after_rescue_and_reclaim(driver: Harness, claim: Claim) -> Claim:
    _after_rescue(driver, claim)
    assert driver.claim_one().id == claim.id
    return claim


def _after_rescue_as_dead(driver: Harness, claim: Claim) -> Claim:
    driver.lose_to_the_cap(claim)
    return claim


def _after_ack(driver: Harness, claim: Claim) -> Claim:
    driver.complete(claim)
    return claim


def _after_failure(driver: Harness, claim: Claim) -> Claim:
    driver.fail(claim, delay_ms=MINUTE_MS)
    return claim


def _after_park(driver: Harness, claim: Claim) -> Claim:
    driver.park(claim)
    return claim


def _after_death(driver: Harness, claim: Claim) -> Claim:
    driver.bury(claim)
    return claim


def _after_cancel(driver: Harness, claim: Claim) -> Claim:
    driver.cancel(claim.id)
    driver.complete(claim)
    return claim


def _after_cancel_while_waiting(driver: Harness, claim: Claim) -> Claim:
    driver.fail(claim)
    driver.cancel(claim.id)
    return claim


def _after_retry(driver: Harness, claim: Claim) -> Claim:
    driver.bury(claim)
    driver.retry(claim.id)
    return claim


def _after_retry_and_reclaim(driver: Harness, claim: Claim) -> Claim:
    _after_retry(driver, claim)
    assert driver.claim_one(claim.worker).id == claim.id
    return claim


LOSSES = [
    _by_another_worker,
    _with_the_next_token,
    _with_an_old_token,
    _of_an_unknown_job,
    _after_rescue,
    _after_rescue_and_reclaim,
    _after_rescue_as_dead,
    _after_ack,
    _after_failure,
    _after_park,
    _after_death,
    _after_cancel,
    _after_cancel_while_waiting,
    _after_retry,
    _after_retry_and_reclaim,
]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
@pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__.strip("_"))
def test_write_of_a_lost_claim_changes_nothing_and_says_so(
    driver: Harness, lose: Lose, write: Write
) -> None:
    """A write matched on worker and token that finds neither changes no row and no history."""
    claim = driver.running(max_attempts=5)
    stale = lose(driver, claim)
    before, events = driver.find(), driver.events(claim.id)

    answer = write(driver, stale)

    assert (answer.id, answer.token) == (stale.id, stale.token)
    assert (answer.outcome, answer.state) == (Written.LOST, None)
    assert driver.find() == before
    assert driver.events(claim.id) == events


def test_write_of_the_new_claim_after_a_lost_one_is_done(driver: Harness) -> None:
    """The fence shuts out the old claim only: the new one ends the job, once."""
    old = driver.running()
    driver.lose(old)
    new = driver.claim_one()

    late, own, again = driver.complete(old), driver.complete(new, "1"), driver.complete(new, "2")

    assert [late.outcome, own.outcome, again.outcome] == [Written.LOST, Written.DONE, Written.LOST]
    assert driver.get(old.id).result == "1"
