"""Capabilities: a driver does what its flags say, and refuses the rest by a code."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain

import pytest
from django.db import transaction

from ultimate_jobs.drivers.base import Driver, Introspection, Leases
from ultimate_jobs.errors import DriverUnsupported
from ultimate_jobs.types import Claim

from .harness import Harness

FLAGS = ("introspection", "leases", "steps", "outbox", "backfills", "tasks", "processes", "wakeups")


class _Abandon(Exception):
    """Leaves a block so that it rolls back."""


@contextmanager
def _rolled_back() -> Iterator[None]:
    try:
        with transaction.atomic():
            yield
            raise _Abandon
    except _Abandon:
        pass


def test_flags_of_a_driver_are_all_there(driver: Harness, request: pytest.FixtureRequest) -> None:
    """Every capability has a flag that says yes or no, and the driver has its name."""
    flags = {flag: getattr(driver.driver, f"supports_{flag}") for flag in FLAGS}

    assert all(isinstance(value, bool) for value in flags.values())
    assert (flags["introspection"], flags["leases"]) == (True, True)
    assert driver.driver.name == request.node.callspec.params["driver"]


def test_flags_of_a_driver_are_kept(driver: Harness) -> None:
    """A capability object is there exactly where its flag says so."""
    available = {}
    for flag in ("introspection", "leases", "outbox", "wakeups"):
        try:
            available[flag] = getattr(driver.driver, flag) is not None
        except DriverUnsupported:
            available[flag] = False

    assert available == {flag: getattr(driver.driver, f"supports_{flag}") for flag in available}


def test_outbox_asked_of_a_driver_without_one_is_refused(driver: Harness) -> None:
    """The refusal names the driver and what it lacks."""
    with pytest.raises(DriverUnsupported) as refusal:
        _ = driver.driver.outbox

    assert refusal.value.code == "X_DRIVER_UNSUPPORTED"
    assert '"memory"' in refusal.value.cause
    assert "outbox" in refusal.value.cause


def test_close_of_a_driver_in_this_process_forgets_everything(driver: Harness) -> None:
    """Nothing outlives close: no job, no event, no lease, no held key."""
    claim = driver.running(key="k")
    driver.fail(claim)
    driver.start_worker()

    driver.driver.close()

    assert driver.find() == []
    assert driver.events(claim.id) == []
    assert driver.driver.leases.workers() == []
    assert driver.driver.introspection.stats() == []
    assert driver.enqueue(key="k").deduped is False


def test_close_of_a_driver_twice_is_no_error(driver: Harness) -> None:
    """Whoever owns a driver may close it again."""
    driver.driver.close()
    driver.driver.close()

    answer = driver.enqueue()

    assert answer.deduped is False


def test_claim_by_many_threads_takes_each_job_once(driver: Harness) -> None:
    """Threads that claim, fail and complete at one time never share a job."""
    driver.ask(*(driver.request(max_attempts=2) for _ in range(400)))

    with ThreadPoolExecutor(max_workers=8) as pool:
        claims = list(chain.from_iterable(pool.map(_work_off, [driver] * 8)))

    assert len(claims) == 800
    assert len({(claim.id, claim.token) for claim in claims}) == 800
    assert {(job.state, job.token) for job in driver.find()} == {("completed", 2)}


def _work_off(driver: Harness) -> list[Claim]:
    worker, claims = driver.start_worker(), []
    while batch := driver.claim(worker, limit=3):
        for claim in batch:
            driver.fail(claim) if claim.attempt == 1 else driver.complete(claim)
        claims += batch
    return claims


def test_enqueue_in_a_rolled_back_block_leaves_nothing(driver: Harness) -> None:
    """A job is part of its caller's transaction: what rolls back was never asked for."""
    holder = driver.running(key="held")
    with _rolled_back():
        driver.enqueue(key="k")
        driver.ask(driver.request(key="held"))

    answer = driver.enqueue(key="k")

    assert answer.deduped is False
    assert {job.id for job in driver.find()} == {holder.id, answer.id}


def test_driver_under_test_has_every_member_of_the_protocol(driver: Harness) -> None:
    """Nothing of the protocol is missing, neither of the driver nor of its capability objects."""
    pairs = [
        (Driver, driver.driver),
        (Introspection, driver.driver.introspection),
        (Leases, driver.driver.leases),
    ]

    missing = [
        f"{protocol.__name__}.{name}"
        for protocol, implementation in pairs
        for name in vars(protocol)
        if not name.startswith("_") and name not in dir(implementation)
    ]

    assert missing == []


def test_at_of_a_driver_without_a_database_is_refused(driver: Harness) -> None:
    """Where no database holds the jobs, no other one can, and the refusal names the one asked."""
    alias = driver.driver.alias

    with pytest.raises(DriverUnsupported) as refusal:
        driver.driver.at("other")

    assert alias is None
    assert refusal.value.code == "X_DRIVER_UNSUPPORTED"
    assert '"other"' in refusal.value.cause


def test_at_of_a_driver_over_a_database_moves_to_another(driver: Harness) -> None:
    """A driver over another alias is one of the same kind that says so."""
    moved = driver.driver.at("other")

    assert (driver.driver.alias, moved.alias) == ("default", "other")
    assert moved.name == driver.driver.name
