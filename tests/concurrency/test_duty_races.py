"""Races for a duty: of two processes one has it, whoever comes between."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.concurrency.sessions import Session, fetch, wait_until_blocked
from ultimate_jobs.drivers.postgres import PostgresDriver

DUTY = "tests.duty"
Pair = tuple[Session, Session]


def take(driver: PostgresDriver, holder: object, *, ttl_ms: int = 60_000) -> bool:
    return driver.leases.take_duty(DUTY, holder, ttl_ms=ttl_ms)  # type: ignore[arg-type]


def expire() -> None:
    fetch("update x_job_leases set expires_at = x_now() - interval '1 second'")


@pytest.mark.parametrize("was_held", [True, False], ids=["expired", "never held"])
def test_duty_that_two_find_free_goes_to_one(
    pair: Pair, driver: PostgresDriver, was_held: bool
) -> None:
    """The second waits for the first's statement and is told no."""
    first, second = pair
    if was_held:
        take(driver, uuid4())
        expire()

    first.begin()
    won = first.run(lambda: take(driver, uuid4()))
    asked = second.start(lambda: take(driver, uuid4()))
    wait_until_blocked(second)
    first.commit()

    assert won
    assert asked.result(timeout=20) is False
    assert fetch("select count(*) from x_job_leases where name = %s", (DUTY,)) == [(1,)]


@pytest.mark.parametrize("was_held", [True, False], ids=["expired", "never held"])
def test_duty_whose_taker_rolls_back_goes_to_the_next(
    pair: Pair, driver: PostgresDriver, was_held: bool
) -> None:
    """What was not committed was not taken."""
    first, second = pair
    if was_held:
        take(driver, uuid4())
        expire()

    first.begin()
    first.run(lambda: take(driver, uuid4()))
    asked = second.start(lambda: take(driver, uuid4()))
    wait_until_blocked(second)
    first.rollback()

    assert asked.result(timeout=20) is True


def test_duty_that_another_has_is_refused_without_a_wait(
    pair: Pair, driver: PostgresDriver
) -> None:
    """Those that wait their turn do not queue behind a renewal that is under way."""
    first, second = pair
    holder = uuid4()
    take(driver, holder)
    first.begin()
    first.run(lambda: take(driver, holder))

    second.sql("set lock_timeout = '1s'")
    refused = second.run(lambda: take(driver, uuid4()))
    first.commit()

    assert refused is False


def test_duty_that_is_taken_over_has_a_higher_number(driver: PostgresDriver) -> None:
    """A renewal keeps it, so that a holder of the past can be told from one of now."""
    first = uuid4()
    numbers = []
    for holder in (first, first, uuid4()):
        expire()
        take(driver, holder)
        numbers += fetch("select token from x_job_leases where name = %s", (DUTY,))

    assert numbers == [(1,), (1,), (2,)]
