"""Events: what the history of a run tells, and what it leaves out."""

from __future__ import annotations

import pytest

from ultimate_jobs.ids import new_id
from ultimate_jobs.records import EventRecord
from ultimate_jobs.states import JobState
from ultimate_jobs.types import OnConflict

from .harness import BOOM, MINUTE_MS, Harness

FAILURE = {"error_class": "ValueError", "message": "boom", "traceback": "Traceback: boom"}


def _only(driver: Harness, job_id: object, kind: str) -> EventRecord:
    [event] = [event for event in driver.events(job_id) if event.type == kind]  # type: ignore[arg-type]
    return event


def test_events_of_a_first_success_are_none(driver: Harness) -> None:
    """A job that succeeds at its first attempt writes no event."""
    claim = driver.running()

    driver.complete(claim, "1")

    assert driver.events(claim.id) == []


def test_events_of_a_shed_are_none(driver: Harness) -> None:
    """A job handed back unstarted leaves no trace: nothing happened to it."""
    driver.enqueue()
    for delay_ms in (0, MINUTE_MS):
        claim = driver.claim_one()
        driver.shed(claim, delay_ms=delay_ms)

    assert driver.events(claim.id) == []


def test_events_of_a_failure_tell_the_error_and_the_wait(driver: Harness) -> None:
    """A failure's event holds the error, its traceback, the backoff, the attempt and the worker."""
    claim = driver.running(max_attempts=3)

    with driver.timed() as span:
        driver.fail(claim, delay_ms=5000)

    [event] = driver.events(claim.id)
    assert event.type == "failed"
    assert event.detail == {**FAILURE, "delay_ms": 5000, "counted": True}
    assert (event.job_id, event.run_id) == (claim.id, claim.run_id)
    assert (event.attempt, event.worker) == (1, claim.worker)
    assert span.covers(event.at)


def test_events_of_a_failure_that_does_not_count_say_so(driver: Harness) -> None:
    """Whether the attempt counted is told, and which attempt it was."""
    claim = driver.running()

    driver.nack(claim, counts_as_attempt=False, failure=BOOM, delay_ms=10)

    [event] = driver.events(claim.id)
    assert (event.type, event.attempt) == ("failed", 1)
    assert event.detail == {**FAILURE, "delay_ms": 10, "counted": False}


def test_events_of_a_death_tell_the_last_error(driver: Harness) -> None:
    """The event of a death is the one of its last failure, not a second beside it."""
    claim = driver.running()

    driver.bury(claim)

    [event] = driver.events(claim.id)
    assert event.type == "dead"
    assert event.detail == {**FAILURE, "delay_ms": 0, "counted": True}
    assert (event.attempt, event.worker) == (1, claim.worker)


def test_events_of_a_park_tell_that_it_parked(driver: Harness) -> None:
    """A park is part of the history, by the worker that gave the job back."""
    claim = driver.running()

    driver.park(claim)

    [event] = driver.events(claim.id)
    assert (event.type, event.worker) == ("parked", claim.worker)


def test_events_of_a_waiting_jobs_cancel_tell_by_whom(driver: Harness) -> None:
    """A cancel of a waiting job is one event, with its author."""
    job_id = driver.enqueue().id

    driver.cancel(job_id)

    [event] = driver.events(job_id)
    assert (event.type, event.detail) == ("cancelled", {"by": "ops"})
    assert event.worker is None


@pytest.mark.parametrize("end", ["complete", "park", "shed", "lose"])
def test_events_of_a_running_jobs_cancel_tell_request_and_end(driver: Harness, end: str) -> None:
    """A cancel of a running job is two events: who asked, and that it ended."""
    claim = driver.running()
    driver.cancel(claim.id)

    getattr(driver, end)(claim)

    request, ended = driver.events(claim.id)
    assert (request.type, request.detail) == ("cancel_requested", {"by": "ops"})
    assert (ended.type, ended.detail) == ("cancelled", {})
    assert ended.worker == claim.worker


def test_events_of_a_rescue_tell_what_was_lost(driver: Harness) -> None:
    """A rescue's event holds the lost worker, its token, and the wait that follows."""
    first = driver.running()
    driver.lose(first)
    second = driver.claim_one()
    driver.lose(second)

    one, two = driver.events(first.id)

    assert (one.type, one.worker) == ("rescued", first.worker)
    assert one.detail == {"lost_leases": 1, "delay_ms": 0, "token": 1}
    assert (two.type, two.worker) == ("rescued", second.worker)
    assert two.detail == {"lost_leases": 2, "delay_ms": 2000, "token": 2}


def test_events_of_a_rescue_at_the_cap_tell_of_the_death(driver: Harness) -> None:
    """The last loss is told as the death it caused, with the code of the cause."""
    claim = driver.running()

    rescue = driver.lose_to_the_cap(claim)

    *losses, death = driver.events(claim.id)
    assert [event.type for event in losses] == ["rescued"] * (driver.max_lost_leases - 1)
    assert (death.type, death.worker) == ("dead", rescue.worker)
    assert (death.detail["error_class"], death.detail["traceback"]) == ("X_WORKER_GONE", "")
    assert driver.get(claim.id).last_error == f"X_WORKER_GONE: {death.detail['message']}"


@pytest.mark.parametrize("fresh", [False, True])
def test_events_of_a_retry_tell_by_whom_and_from_where(driver: Harness, fresh: bool) -> None:
    """A retry's event holds its author, the state it left, and whether the run is a new one."""
    job_id = driver.job_in(JobState.DEAD)
    fresh_run_id = new_id() if fresh else None

    record = driver.retry(job_id, fresh_run_id=fresh_run_id)

    event = _only(driver, job_id, "retried")
    assert event.detail == {"by": "ops", "fresh": fresh, "from": "dead"}
    assert event.run_id == record.run_id
    assert event.worker is None


def test_events_of_a_rerun_name_the_follow_up(driver: Harness) -> None:
    """The run that was followed says by which job; the follow-up begins without a history."""
    claim = driver.running(key="k")
    request = driver.request(key="k")
    driver.ask(request, on_conflict=OnConflict.RERUN)

    driver.complete(claim)

    [event] = driver.events(claim.id)
    assert (event.type, event.detail) == ("rerun", {"job_id": str(request.id)})
    assert event.run_id == claim.run_id
    assert driver.events(request.id) == []


def test_events_of_a_long_life_come_in_their_order(driver: Harness) -> None:
    """A history reads from first to last, over attempts, losses, deaths and retries."""
    claim = driver.running(max_attempts=3)
    for give_back in (driver.fail, driver.shed, driver.park, driver.lose, driver.bury):
        give_back(claim)
        if give_back != driver.bury:
            driver.advance(MINUTE_MS)
            claim = driver.claim_one()
    driver.retry(claim.id)
    claim = driver.claim_one()
    driver.cancel(claim.id)
    driver.fail(claim)
    driver.retry(claim.id, fresh_run_id=new_id())
    driver.complete(driver.claim_one())

    events = driver.events(claim.id)

    assert [event.type for event in events] == [
        "failed",
        "parked",
        "rescued",
        "dead",
        "retried",
        "cancel_requested",
        "cancelled",
        "retried",
    ]
    assert [event.at for event in events] == sorted(event.at for event in events)


def test_events_of_all_jobs_have_growing_ids(driver: Harness) -> None:
    """The ids of events grow over all jobs, so that a reader can go on from the last it saw."""
    one, two = driver.running(), driver.running()

    ids = []
    for claim in (one, two, one, two):
        driver.cancel(claim.id) if claim is one else driver.fail(claim)
        ids += [event.id for event in driver.events(claim.id) if event.id not in ids]

    assert ids == sorted(ids)
    assert len(ids) == len(set(ids)) == 2


def test_events_handed_out_cannot_change_what_happened(driver: Harness) -> None:
    """Whoever reads a history gets a copy of it."""
    claim = driver.running()
    driver.fail(claim)
    [read] = driver.events(claim.id)

    read.detail["message"] = "nothing happened"

    [event] = driver.events(claim.id)
    assert event.detail["message"] == "boom"


def test_events_of_an_unknown_job_are_none(driver: Harness) -> None:
    """A job that does not exist has no history, and asking is no error."""
    assert driver.events(new_id()) == []
