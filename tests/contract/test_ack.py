"""Ack: a claim that completed its job."""

from __future__ import annotations

import json

import pytest

from ultimate_jobs.states import JobState
from ultimate_jobs.types import Completion, Written

from .harness import Harness


def test_ack_of_a_claim_completes_the_job(driver: Harness) -> None:
    """The job ends completed, with its result and its end, and says still who ran it."""
    claim = driver.running(max_attempts=3)

    with driver.timed() as span:
        answer = driver.complete(claim, '{"total": [1, 2.5, "ü"]}')

    job = driver.get(claim.id)
    assert (answer.id, answer.token) == (claim.id, claim.token)
    assert (answer.outcome, answer.state) == (Written.DONE, JobState.COMPLETED)
    assert job.state is JobState.COMPLETED
    assert json.loads(job.result or "") == {"total": [1, 2.5, "ü"]}
    assert span.covers(job.finished_at)
    assert (job.worker, job.token, job.attempt) == (claim.worker, claim.token, 1)
    assert (job.last_error, job.cancel_requested_at) == (None, None)


def test_ack_without_a_result_stores_none(driver: Harness) -> None:
    """A completion without a result leaves none."""
    claim = driver.running()

    driver.complete(claim)

    assert driver.get(claim.id).result is None


@pytest.mark.parametrize("result", ["null", "0", '""', "[]", "{}", "false"])
def test_ack_with_an_empty_result_stores_it(driver: Harness, result: str) -> None:
    """A result that is empty or null is a result, and another thing than none."""
    claim = driver.running()

    driver.complete(claim, result)

    assert driver.get(claim.id).result == result


def test_ack_of_a_list_answers_in_the_order_asked(driver: Harness) -> None:
    """Each completion is answered in its place, and a lost one costs the others nothing."""
    driver.ask(*(driver.request() for _ in range(5)))
    worker = driver.start_worker()
    claims = driver.claim(worker)
    lost = claims[2]
    driver.nack(lost)
    order = [claims[index] for index in (3, 0, 2, 4, 1)]

    answers = driver.driver.ack(
        worker, [Completion(claim.id, claim.token, f'"{claim.id}"') for claim in order]
    )

    assert [(answer.id, answer.token) for answer in answers] == [
        (claim.id, claim.token) for claim in order
    ]
    assert [answer.outcome for answer in answers] == [
        Written.LOST if claim is lost else Written.DONE for claim in order
    ]
    for claim in order:
        job = driver.get(claim.id)
        assert job.result == (None if claim is lost else f'"{claim.id}"')


def test_ack_of_nothing_answers_nothing(driver: Harness) -> None:
    """An empty list is answered by an empty list."""
    worker = driver.start_worker()

    answers = [driver.driver.ack(worker, []), driver.driver.nack(worker, [])]

    assert answers == [[], []]


def test_ack_after_a_cancel_request_cancels_the_job(driver: Harness) -> None:
    """A job that was asked to stop is cancelled whatever its body returned."""
    claim = driver.running()
    driver.cancel(claim.id)

    with driver.timed() as span:
        answer = driver.complete(claim, '"made it"')

    job = driver.get(claim.id)
    assert (answer.outcome, answer.state) == (Written.DONE, JobState.CANCELLED)
    assert (job.state, job.result) == (JobState.CANCELLED, None)
    assert span.covers(job.finished_at)
    assert (job.worker, job.token) == (claim.worker, claim.token)


def test_ack_after_earlier_failures_keeps_the_last_error(driver: Harness) -> None:
    """A late success does not hide what went wrong before it."""
    driver.fail(driver.running(max_attempts=3))

    driver.complete(driver.claim_one(), "1")

    [job] = driver.find()
    assert (job.state, job.attempt) == (JobState.COMPLETED, 2)
    assert job.last_error == "ValueError: boom"


@pytest.mark.parametrize("moved_ms", [0, 1000])
def test_ack_within_the_lease_needs_no_heartbeat(driver: Harness, moved_ms: int) -> None:
    """An ack is fenced by worker and token alone."""
    claim = driver.running()
    driver.advance(moved_ms)

    answer = driver.complete(claim)

    assert answer.outcome is Written.DONE


def test_ack_after_the_lease_before_the_rescue_is_still_the_claims(driver: Harness) -> None:
    """Until another takes the job, the claim is whole and its work is not thrown away."""
    claim = driver.running()
    driver.advance(2 * driver.lease_ttl_ms)

    answer = driver.complete(claim)

    assert answer.outcome is Written.DONE
    assert claim.id not in [rescue.id for rescue in driver.rescue()]
