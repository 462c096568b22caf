"""Nack: a claim given back, and the bucket its job lands in."""

from __future__ import annotations

from typing import Any

import pytest

from ultimate_jobs.states import FINAL, JobState
from ultimate_jobs.types import Nack, Written

from .harness import BOOM, MINUTE_MS, Harness

FLAGS = {
    "failure": {"failure": BOOM},
    "failure that does not count": {"failure": BOOM, "counts_as_attempt": False},
    "shed": {"counts_as_attempt": False},
    "park": {"counts_as_attempt": False, "park": True},
    "park that counts": {"park": True},
    "dead": {"dead_letter": True, "failure": BOOM},
    "dead without failure": {"dead_letter": True},
    "dead and park": {"dead_letter": True, "park": True, "failure": BOOM},
}

ANY_FLAGS = pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS.keys())


def test_nack_of_a_failure_makes_the_job_ready_after_its_delay(driver: Harness) -> None:
    """A failure counts, stores its error, and is owed again at the end of its backoff."""
    claim = driver.running(max_attempts=3)

    with driver.timed() as span:
        answer = driver.fail(claim, delay_ms=5000)

    job = driver.get(claim.id)
    assert (answer.outcome, answer.state) == (Written.DONE, JobState.READY)
    assert (job.state, job.attempt, job.last_error) == (JobState.READY, 1, "ValueError: boom")
    assert (job.worker, job.token, job.finished_at) == (None, claim.token, None)
    assert span.covers(job.run_at, plus_ms=5000)
    assert job.due_at == job.run_at


def test_nack_of_a_shed_keeps_the_job_owed(driver: Harness) -> None:
    """A shed moves only the next try: not the due time, the attempts or the last error."""
    claim = driver.running(max_attempts=3)
    driver.fail(claim)
    claim = driver.claim_one()
    before = driver.get(claim.id)
    driver.advance(1000)

    with driver.timed() as span:
        answer = driver.shed(claim, delay_ms=5000)

    job = driver.get(claim.id)
    assert (answer.outcome, answer.state) == (Written.DONE, JobState.READY)
    assert (job.state, job.attempt, job.worker) == (JobState.READY, 1, None)
    assert span.covers(job.run_at, plus_ms=5000)
    assert job.due_at == before.due_at
    assert job.last_error == before.last_error == "ValueError: boom"


def test_nack_of_a_park_suspends_the_job_until_its_wake_time(driver: Harness) -> None:
    """A park takes its attempt back, logs no error, and is owed at its wake time."""
    claim = driver.running()

    with driver.timed() as span:
        answer = driver.park(claim, delay_ms=3 * MINUTE_MS)

    job = driver.get(claim.id)
    assert (answer.outcome, answer.state) == (Written.DONE, JobState.SUSPENDED)
    assert (job.state, job.attempt, job.worker) == (JobState.SUSPENDED, 0, None)
    assert job.last_error is None
    assert span.covers(job.run_at, plus_ms=3 * MINUTE_MS)
    assert job.due_at == job.run_at


def test_nack_of_a_dead_letter_ends_the_job(driver: Harness) -> None:
    """A dead job keeps its attempt, its error, its worker and its times."""
    claim = driver.running(max_attempts=1)
    before = driver.get(claim.id)

    with driver.timed() as span:
        answer = driver.nack(claim, dead_letter=True, failure=BOOM, delay_ms=5000)

    job = driver.get(claim.id)
    assert (answer.outcome, answer.state) == (Written.DONE, JobState.DEAD)
    assert (job.state, job.attempt, job.last_error) == (JobState.DEAD, 1, "ValueError: boom")
    assert span.covers(job.finished_at)
    assert (job.worker, job.token) == (claim.worker, claim.token)
    assert (job.run_at, job.due_at) == (before.run_at, before.due_at)


def test_nack_of_a_failure_that_does_not_count_stores_its_error(driver: Harness) -> None:
    """A retry that costs no attempt still tells why, and stays owed since before."""
    claim = driver.running(max_attempts=3)
    before = driver.get(claim.id)

    with driver.timed() as span:
        driver.nack(claim, counts_as_attempt=False, failure=BOOM, delay_ms=5000)

    job = driver.get(claim.id)
    assert (job.state, job.attempt, job.last_error) == (JobState.READY, 0, "ValueError: boom")
    assert span.covers(job.run_at, plus_ms=5000)
    assert job.due_at == before.due_at


@pytest.mark.parametrize(
    ("flags", "state", "attempt"),
    [
        ({"failure": BOOM}, JobState.READY, 2),
        ({"failure": BOOM, "counts_as_attempt": False}, JobState.READY, 1),
        ({}, JobState.READY, 2),
        ({"counts_as_attempt": False}, JobState.READY, 1),
        ({"park": True}, JobState.SUSPENDED, 2),
        ({"park": True, "counts_as_attempt": False}, JobState.SUSPENDED, 1),
        ({"park": True, "failure": BOOM}, JobState.SUSPENDED, 2),
        ({"dead_letter": True}, JobState.DEAD, 2),
        ({"dead_letter": True, "counts_as_attempt": False}, JobState.DEAD, 1),
        ({"dead_letter": True, "park": True}, JobState.DEAD, 2),
    ],
)
def test_nack_with_two_flags_decides_two_facts(
    driver: Harness, flags: dict[str, Any], state: JobState, attempt: int
) -> None:
    """Whether the attempt counts and where the job goes are told apart, in every combination."""
    driver.fail(driver.running(max_attempts=9))
    claim = driver.claim_one()

    answer = driver.nack(claim, **flags)

    job = driver.get(claim.id)
    assert (answer.state, job.state) == (state, state)
    assert job.attempt == attempt


@pytest.mark.parametrize(
    ("flags", "depth", "scheduled", "dead"),
    [
        pytest.param({"failure": BOOM}, 0, 1, 0, id="a failure is scheduled for its backoff"),
        pytest.param({"counts_as_attempt": False}, 1, 0, 0, id="a shed is still owed"),
        pytest.param({"counts_as_attempt": False, "park": True}, 0, 1, 0, id="a park is scheduled"),
        pytest.param({"dead_letter": True, "failure": BOOM}, 0, 0, 1, id="a dead job is neither"),
        pytest.param(
            {"counts_as_attempt": False, "failure": BOOM}, 1, 0, 0, id="an uncounted one is owed"
        ),
    ],
)
def test_nack_lands_the_job_in_the_bucket_that_the_alarm_reads(
    driver: Harness, flags: dict[str, Any], depth: int, scheduled: int, dead: int
) -> None:
    """A saturated queue must not look empty: what was shed is owed, what was put off is not."""
    claim = driver.running()

    driver.nack(claim, delay_ms=MINUTE_MS, **flags)

    stats = driver.stats()
    assert stats is not None
    assert (stats.depth, stats.scheduled, stats.dead) == (depth, scheduled, dead)
    assert stats.running == 0
    assert (stats.oldest_ready_seconds is not None) == (depth > 0)


@pytest.mark.parametrize("verb", ["shed", "park"])
def test_nack_that_does_not_count_never_goes_below_zero(driver: Harness, verb: str) -> None:
    """However often a job is given back unstarted, its attempts stay at 0."""
    driver.enqueue()
    for _ in range(3):
        claim = driver.claim_one()
        assert claim.attempt == 1

        getattr(driver, verb)(claim)

        assert driver.get(claim.id).attempt == 0
        driver.advance(MINUTE_MS)


def test_nack_without_delay_can_be_claimed_at_once(driver: Harness) -> None:
    """A delay of 0 is no delay, for every way of giving back."""
    for flags in (FLAGS["failure"], FLAGS["shed"], FLAGS["park"]):
        claim = driver.running()

        driver.nack(claim, **flags)

        again = driver.claim_one()
        assert again.id == claim.id
        driver.complete(again)


@ANY_FLAGS
def test_nack_after_a_cancel_request_cancels_the_job(
    driver: Harness, flags: dict[str, Any]
) -> None:
    """A requested cancel beats whatever else the body's end would have meant."""
    claim = driver.running(max_attempts=5)
    before = driver.get(claim.id)
    driver.cancel(claim.id)

    with driver.timed() as span:
        answer = driver.nack(claim, delay_ms=5000, **flags)

    job = driver.get(claim.id)
    assert (answer.outcome, answer.state) == (Written.DONE, JobState.CANCELLED)
    assert job.state is JobState.CANCELLED
    assert span.covers(job.finished_at)
    assert (job.worker, job.token) == (claim.worker, claim.token)
    assert (job.run_at, job.due_at) == (before.run_at, before.due_at)


@ANY_FLAGS
def test_nack_keeps_the_worker_only_of_a_finished_job(
    driver: Harness, flags: dict[str, Any]
) -> None:
    """A waiting job is nobody's; a finished one says who ended it."""
    claim = driver.running()

    answer = driver.nack(claim, **flags)

    assert answer.state is not None
    expected = claim.worker if answer.state in FINAL else None
    assert driver.get(claim.id).worker == expected


@ANY_FLAGS
def test_nack_without_a_failure_leaves_the_last_error(
    driver: Harness, flags: dict[str, Any]
) -> None:
    """Only a failure writes the last error, and only its own."""
    first = driver.running(max_attempts=9)
    driver.nack(first, failure=BOOM)
    claim = driver.claim_one()

    driver.nack(claim, **{**flags, "failure": None})

    assert driver.get(claim.id).last_error == "ValueError: boom"


def test_nack_of_a_list_answers_in_the_order_asked(driver: Harness) -> None:
    """Each nack lands in its own bucket and is answered in its place, beside a lost one."""
    driver.ask(*(driver.request() for _ in range(5)))
    worker = driver.start_worker()
    claims = driver.claim(worker)
    driver.complete(claims[1])
    flags: list[dict[str, Any]] = [
        {"dead_letter": True},
        {},
        {"park": True},
        {"failure": BOOM},
        {"counts_as_attempt": False},
    ]
    order = [4, 1, 0, 3, 2]

    answers = driver.driver.nack(
        worker, [Nack(claims[i].id, claims[i].token, delay_ms=1000, **flags[i]) for i in order]
    )

    assert [answer.id for answer in answers] == [claims[i].id for i in order]
    assert [answer.state for answer in answers] == [
        JobState.READY,
        None,
        JobState.DEAD,
        JobState.READY,
        JobState.SUSPENDED,
    ]
    assert [answer.outcome for answer in answers] == [
        Written.DONE,
        Written.LOST,
        Written.DONE,
        Written.DONE,
        Written.DONE,
    ]
