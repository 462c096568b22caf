"""Cancel: waiting jobs end at once, running ones are asked to stop."""

from __future__ import annotations

from uuid import uuid4

import pytest

from ultimate_jobs.states import FINAL, JobState
from ultimate_jobs.types import ANY_TENANT, CancelOutcome

from .harness import MINUTE_MS, Harness

WAITING = [JobState.READY, JobState.DELAYED, JobState.SUSPENDED]


@pytest.mark.parametrize("state", WAITING)
def test_cancel_of_a_waiting_job_ends_it_at_once(driver: Harness, state: JobState) -> None:
    """A job that does not run is cancelled by the call itself."""
    job_id = driver.job_in(state)

    with driver.timed() as span:
        answer = driver.cancel(job_id)

    job = driver.get(job_id)
    assert (answer.id, answer.outcome) == (job_id, CancelOutcome.CANCELLED)
    assert (answer.state, job.state) == (JobState.CANCELLED, JobState.CANCELLED)
    assert span.covers(job.finished_at)


@pytest.mark.parametrize("state", WAITING)
def test_cancel_of_a_waiting_job_keeps_it_from_ever_running(
    driver: Harness, state: JobState
) -> None:
    """A cancelled job is not claimed, not even when its time comes."""
    job_id = driver.job_in(state)
    driver.cancel(job_id)

    driver.advance(10 * MINUTE_MS)

    assert driver.claim() == []


def test_cancel_of_a_running_job_asks_it_to_stop(driver: Harness) -> None:
    """A running job keeps its state, its worker and its key until its body stops."""
    claim = driver.running(key="k")

    with driver.timed() as span:
        answer = driver.cancel(claim.id)

    job = driver.get(claim.id)
    assert (answer.outcome, answer.state) == (CancelOutcome.REQUESTED, JobState.RUNNING)
    assert (job.state, job.worker, job.token) == (JobState.RUNNING, claim.worker, claim.token)
    assert span.covers(job.cancel_requested_at)
    assert job.finished_at is None
    assert driver.enqueue(key="k").id == claim.id


def test_cancel_of_a_running_job_twice_keeps_the_first_request(driver: Harness) -> None:
    """The request is set once; asking again says the same and moves nothing."""
    claim = driver.running()
    driver.cancel(claim.id)
    before = driver.get(claim.id)
    driver.advance(1000)

    answer = driver.cancel(claim.id)

    assert (answer.outcome, answer.state) == (CancelOutcome.REQUESTED, JobState.RUNNING)
    assert driver.get(claim.id) == before
    assert driver.event_types(claim.id) == ["cancel_requested"]


@pytest.mark.parametrize("state", FINAL)
def test_cancel_of_a_finished_job_changes_nothing(driver: Harness, state: JobState) -> None:
    """What has ended stays as it ended."""
    job_id = driver.job_in(state)
    before, events = driver.get(job_id), driver.events(job_id)

    answer = driver.cancel(job_id)

    assert (answer.outcome, answer.state) == (CancelOutcome.ALREADY_FINAL, state)
    assert driver.get(job_id) == before
    assert driver.events(job_id) == events


def test_cancel_of_an_unknown_id_is_not_found(driver: Harness) -> None:
    """An id that does not exist is said to be not found, and raises nothing."""
    unknown = uuid4()

    answer = driver.cancel(unknown)

    assert (answer.id, answer.outcome, answer.state) == (unknown, CancelOutcome.NOT_FOUND, None)


def test_cancel_of_a_list_answers_in_the_order_asked(driver: Harness) -> None:
    """Every id gets its own answer in its own place."""
    running = driver.running().id
    final = driver.job_in(JobState.COMPLETED)
    delayed = driver.job_in(JobState.DELAYED)
    ready = driver.job_in(JobState.READY)
    unknown = uuid4()

    answers = driver.driver.cancel(
        [unknown, ready, running, final, delayed], tenant=ANY_TENANT, by="ops"
    )

    assert [(answer.id, answer.outcome) for answer in answers] == [
        (unknown, CancelOutcome.NOT_FOUND),
        (ready, CancelOutcome.CANCELLED),
        (running, CancelOutcome.REQUESTED),
        (final, CancelOutcome.ALREADY_FINAL),
        (delayed, CancelOutcome.CANCELLED),
    ]


def test_cancel_of_nothing_answers_nothing(driver: Harness) -> None:
    """An empty list is answered by an empty list."""
    answers = driver.driver.cancel([], tenant=ANY_TENANT, by="ops")

    assert answers == []


def test_cancel_of_a_job_given_back_ends_it_at_once(driver: Harness) -> None:
    """A job that waits for its next attempt is waiting like any other."""
    claim = driver.running(max_attempts=3)
    driver.fail(claim, delay_ms=MINUTE_MS)

    answer = driver.cancel(claim.id)

    job = driver.get(claim.id)
    assert (answer.outcome, job.state) == (CancelOutcome.CANCELLED, JobState.CANCELLED)
    assert (job.attempt, job.last_error) == (1, "ValueError: boom")


def test_cancel_touches_only_the_ids_it_names(driver: Harness) -> None:
    """Neighbours of the same name and queue are left alone."""
    neighbour = driver.enqueue()
    before = driver.get(neighbour.id)
    target = driver.enqueue()

    driver.cancel(target.id)

    assert driver.get(neighbour.id) == before
