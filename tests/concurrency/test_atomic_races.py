"""An atomic body's commit against those who hold its job's row, in the order of this page."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.concurrency.requests import request
from tests.concurrency.sessions import Session, wait_until_blocked
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.states import JobState
from ultimate_jobs.types import ANY_TENANT, Claim, ClaimRequest, Completion, OnConflict


@pytest.fixture
def claim(driver: PostgresDriver, worker: UUID) -> Claim:
    driver.enqueue([request()], on_conflict=OnConflict.EXISTING)
    [claimed] = driver.claim(ClaimRequest(worker, names=("race",), limit=1))
    return claimed


def complete(driver: PostgresDriver, claim: Claim) -> bool:
    return driver.atomic.complete(claim.worker, Completion(claim.id, claim.token, "1"))


def state(driver: PostgresDriver, job_id: UUID) -> JobState:
    record = driver.introspection.get(job_id, tenant=ANY_TENANT)
    assert record is not None
    return record.state


def test_commit_waits_for_a_rerun_request_and_keeps_it(
    driver: PostgresDriver, pair: tuple[Session, Session], claim: Claim
) -> None:
    """A caller who asks for one more run holds the row; the body's work is not undone for that."""
    caller, body = pair
    again = request(payload='{"second": true}')
    caller.begin()
    caller.run(lambda: driver.enqueue([again], on_conflict=OnConflict.RERUN))
    body.begin()
    completing = body.start(lambda: complete(driver, claim))
    wait_until_blocked(body)

    caller.commit()

    assert completing.result(timeout=20)
    body.commit()
    assert state(driver, claim.id) is JobState.COMPLETED
    assert state(driver, again.id) is JobState.READY


def test_commit_waits_for_a_cancel_and_obeys_it(
    driver: PostgresDriver, pair: tuple[Session, Session], claim: Claim
) -> None:
    """A cancel that holds the row first is seen once it has committed."""
    caller, body = pair
    caller.begin()
    caller.run(lambda: driver.cancel([claim.id], tenant=ANY_TENANT, by="test"))
    body.begin()
    completing = body.start(lambda: complete(driver, claim))
    wait_until_blocked(body)

    caller.commit()

    assert not completing.result(timeout=20)
    body.rollback()
    assert state(driver, claim.id) is JobState.RUNNING


def test_commit_goes_on_after_a_cancel_was_rolled_back(
    driver: PostgresDriver, pair: tuple[Session, Session], claim: Claim
) -> None:
    """What was never committed cancels nothing."""
    caller, body = pair
    caller.begin()
    caller.run(lambda: driver.cancel([claim.id], tenant=ANY_TENANT, by="test"))
    body.begin()
    completing = body.start(lambda: complete(driver, claim))
    wait_until_blocked(body)

    caller.rollback()

    assert completing.result(timeout=20)
    body.commit()
    assert state(driver, claim.id) is JobState.COMPLETED


def test_cancel_waits_for_the_commit_and_finds_the_job_ended(
    driver: PostgresDriver, pair: tuple[Session, Session], claim: Claim
) -> None:
    """Between the completion and its commit nobody takes the job away."""
    caller, body = pair
    body.begin()
    assert body.run(lambda: complete(driver, claim))
    cancelling = caller.start(lambda: driver.cancel([claim.id], tenant=ANY_TENANT, by="test"))
    wait_until_blocked(caller)

    body.commit()

    [answer] = cancelling.result(timeout=20)
    assert answer.outcome == "already_final"
    assert state(driver, claim.id) is JobState.COMPLETED


@pytest.mark.parametrize("commits", [True, False])
def test_rescue_passes_by_a_job_that_is_about_to_commit(
    driver: PostgresDriver, pair: tuple[Session, Session], claim: Claim, commits: bool
) -> None:
    """A lease that ends between the completion and its commit takes the job only if that fails."""
    _, body = pair
    body.begin()
    assert body.run(lambda: complete(driver, claim))
    driver.leases.release(claim.worker)

    assert driver.leases.rescue(limit=10) == []
    body.commit() if commits else body.rollback()
    rescued = [one.id for one in driver.leases.rescue(limit=10)]

    assert rescued == ([] if commits else [claim.id])


def test_deadlock_ends_one_of_the_two(
    driver: PostgresDriver, pair: tuple[Session, Session], claim: Claim
) -> None:
    """A caller who holds the job's row and waits for what the body wrote does not wait for ever."""
    caller, body = pair
    caller.sql("insert into testapp_document (name, version) values ('shared', 0)")
    update = "update testapp_document set version = version + 1 where name = 'shared'"
    body.begin()
    body.sql(update)
    caller.begin()
    caller.run(lambda: driver.cancel([claim.id], tenant=ANY_TENANT, by="test"))
    waiting = caller.start(lambda: caller.fetch(update))
    wait_until_blocked(caller)

    completing = body.start(lambda: complete(driver, claim))
    errors: list[Any] = [completing.exception(timeout=20)]
    if errors[0] is not None:
        body.rollback()
    errors.append(waiting.exception(timeout=20))

    assert sum("deadlock" in str(error) for error in errors) == 1
    for session in pair:
        if session is caller or errors[0] is None:
            session.rollback()
