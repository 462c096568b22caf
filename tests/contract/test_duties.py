"""Duties: what one process at a time does, each a lease that expires."""

from __future__ import annotations

from uuid import uuid4

from .harness import MINUTE_MS, Harness


def take(driver: Harness, holder: object, *, duty: str = "sweep") -> bool:
    taken: bool = driver.driver.leases.take_duty(
        f"{driver.queue}.{duty}",
        holder,  # type: ignore[arg-type]
        ttl_ms=MINUTE_MS,
    )
    return taken


def test_duty_is_taken_by_one_at_a_time(driver: Harness) -> None:
    """The second is told no, however often it asks."""
    first, second = uuid4(), uuid4()

    assert [take(driver, one) for one in (first, second, second)] == [True, False, False]


def test_duty_is_renewed_by_its_holder(driver: Harness) -> None:
    """Each renewal is for the whole time anew."""
    first, second = uuid4(), uuid4()
    take(driver, first)

    driver.advance(MINUTE_MS - 1000)
    renewed = take(driver, first)
    driver.advance(MINUTE_MS - 1000)

    assert renewed
    assert not take(driver, second)


def test_duty_that_has_expired_is_taken_over(driver: Harness) -> None:
    """And its former holder waits its turn like everybody."""
    first, second = uuid4(), uuid4()
    take(driver, first)
    driver.advance(MINUTE_MS + 1)

    assert take(driver, second)
    assert not take(driver, first)


def test_duty_that_has_expired_is_still_its_holders_if_nobody_took_it(driver: Harness) -> None:
    """A process that was slow once goes on."""
    first = uuid4()
    take(driver, first)
    driver.advance(MINUTE_MS + 1)

    assert take(driver, first)


def test_duties_of_two_names_are_apart(driver: Harness) -> None:
    """Who has the one says nothing of the other."""
    first, second = uuid4(), uuid4()

    assert take(driver, first, duty="sweep")
    assert take(driver, second, duty="relay")


def test_duty_is_no_worker(driver: Harness) -> None:
    """It is not listed as one, and no rescue removes it."""
    holder = uuid4()
    take(driver, holder)

    driver.rescue()

    assert holder not in [one.worker for one in driver.driver.leases.workers()]
    assert not take(driver, uuid4())
