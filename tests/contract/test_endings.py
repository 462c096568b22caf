"""Which bucket each ending of an attempt lands in: one table, and both drivers keep to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ultimate_jobs.errors import AttemptTimedOut, RetryLaterSpent
from ultimate_jobs.interruptions import AttemptTimeout
from ultimate_jobs.retry import Retry, RetryLater
from ultimate_jobs.services import attempts
from ultimate_jobs.services.context import JobContext
from ultimate_jobs.states import JobState
from ultimate_jobs.types import Claim, Completion, Nack

from .harness import Harness

RETRY = Retry(
    attempts=3, backoff="fixed", delay=5, jitter=0, discard_on=(KeyError,), retry_on=(ValueError,)
)
DELAY_MS = 5000


@dataclass(frozen=True, slots=True)
class Bucket:
    """What is left of a job that failed once before and was claimed for the second time.

    Attributes:
        moves_due: it is owed from the end of its wait; otherwise since it was before.
        event: the type of the one event that the ending leaves, if it leaves one.
    """

    state: JobState
    attempt: int
    moves_due: bool = False
    lost_leases: int = 0
    deferrals: int = 0
    error: str = "ValueError: first"
    event: str | None = None


def raised(error: BaseException, retry: Retry = RETRY) -> Callable[[Claim], Any]:
    return lambda claim: attempts.fail(claim, JobContext(claim), error, retry=retry)


def timed_out(claim: Claim) -> Any:
    context = JobContext(claim)
    context.limit(30)
    context.interrupt(AttemptTimeout())
    context.remember_interrupted()
    return attempts.fail(claim, context, AttemptTimeout(), retry=RETRY)


ENDINGS: dict[str, tuple[Callable[[Claim], Any], Bucket]] = {
    "completed": (
        lambda claim: Completion(claim.id, claim.token),
        Bucket(JobState.COMPLETED, 2),
    ),
    "a failure counts": (
        raised(ValueError("again")),
        Bucket(JobState.READY, 2, moves_due=True, error="ValueError: again", event="failed"),
    ),
    "a failure of no class in retry_on": (
        raised(TypeError("no")),
        Bucket(JobState.DEAD, 2, error="TypeError: no", event="dead"),
    ),
    "a failure at the limit": (
        lambda claim: attempts.bury(claim, ValueError("last")),
        Bucket(JobState.DEAD, 2, error="ValueError: last", event="dead"),
    ),
    "a shed": (
        lambda claim: attempts.hand_back(claim, delay_ms=DELAY_MS),
        Bucket(JobState.READY, 1),
    ),
    "a hand-back": (attempts.hand_back, Bucket(JobState.READY, 1)),
    "a park": (
        lambda claim: Nack(
            claim.id, claim.token, counts_as_attempt=False, park=True, delay_ms=DELAY_MS
        ),
        Bucket(JobState.SUSPENDED, 1, moves_due=True, event="parked"),
    ),
    "RetryLater": (
        raised(RetryLater(delay=5, reason="not yet")),
        Bucket(JobState.READY, 1, moves_due=True, deferrals=1, event="deferred"),
    ),
    "RetryLater that counts": (
        raised(RetryLater(delay=5, counts=True)),
        Bucket(JobState.READY, 2, moves_due=True, deferrals=1, event="deferred"),
    ),
    "RetryLater past its cap": (
        raised(RetryLater(delay=5), Retry(deferrals=0)),
        Bucket(JobState.DEAD, 1, error="X_RETRY_LATER_SPENT: ", event="dead"),
    ),
    "an error of discard_on": (
        raised(KeyError("gone")),
        Bucket(JobState.CANCELLED, 2, error="KeyError: 'gone'", event="discarded"),
    ),
    "a timeout": (
        timed_out,
        Bucket(JobState.READY, 2, moves_due=True, error="X_ATTEMPT_TIMEOUT: ", event="failed"),
    ),
    "a body that outlived its timeout": (
        lambda claim: attempts.outlive(claim, 30, None, retry=RETRY),
        Bucket(JobState.READY, 2, moves_due=True, error="X_ATTEMPT_TIMEOUT: ", event="failed"),
    ),
    "a lost lease": (
        lambda claim: None,
        Bucket(JobState.READY, 1, lost_leases=1, event="rescued"),
    ),
}


@pytest.mark.parametrize(("end", "bucket"), ENDINGS.values(), ids=ENDINGS.keys())
def test_ending_lands_in_its_bucket(
    driver: Harness, end: Callable[[Claim], Any], bucket: Bucket
) -> None:
    """State, attempts, lost leases, deferrals, error, due time and event are each pinned."""
    claim = second_claim(driver)
    before = driver.get(claim.id)
    events = len(driver.events(claim.id))
    driver.advance(1000)

    with driver.timed() as span:
        write(driver, claim, end(claim))

    job = driver.get(claim.id)
    left = (job.state, job.attempt, job.lost_leases, job.deferrals)
    assert left == (bucket.state, bucket.attempt, bucket.lost_leases, bucket.deferrals)
    assert str(job.last_error).startswith(bucket.error)
    if bucket.moves_due:
        assert span.covers(job.due_at, plus_ms=DELAY_MS)
    else:
        assert job.due_at == before.due_at
    new = [event.type for event in driver.events(claim.id)[events:]]
    assert new == ([] if bucket.event is None else [bucket.event])


def second_claim(driver: Harness) -> Claim:
    """Return the claim of a job that has failed once, so that nothing is at 0 by accident."""
    first = driver.running(max_attempts=3)
    write(driver, first, raised(ValueError("first"), Retry(backoff="fixed", delay=0))(first))
    return driver.claim_one()


def write(driver: Harness, claim: Claim, ending: Completion | Nack | None) -> None:
    if ending is None:
        driver.lose(claim)
    elif isinstance(ending, Completion):
        driver.driver.ack(claim.worker, [ending])
    else:
        driver.driver.nack(claim.worker, [ending])


def test_deferral_says_why_in_the_history_and_no_error(driver: Harness) -> None:
    """The event holds the reason, the wait and the count; the job's error stays what it was."""
    claim = second_claim(driver)

    write(driver, claim, raised(RetryLater(delay=5, reason="rate limit"))(claim))

    assert driver.events(claim.id)[-1].detail == {
        "reason": "rate limit",
        "delay_ms": 5000,
        "counted": False,
        "deferrals": 1,
    }
    assert driver.events(claim.id)[-1].attempt == 2


def test_deferrals_end_at_their_cap(driver: Harness) -> None:
    """The cap counts over all attempts; the one beyond it is dead and says so in words."""
    ending = raised(RetryLater(delay=0), Retry(deferrals=3))
    driver.enqueue()
    for number in range(1, 4):
        claim = driver.claim_one()
        assert claim.attempt == 1
        write(driver, claim, ending(claim))
        assert driver.get(claim.id).deferrals == number

    claim = driver.claim_one()
    write(driver, claim, ending(claim))

    job = driver.get(claim.id)
    assert (job.state, job.deferrals, job.attempt) == (JobState.DEAD, 3, 0)
    spent = RetryLaterSpent(job_id=claim.id, limit=3, what="deferrals")
    assert job.last_error == f"X_RETRY_LATER_SPENT: {spent.cause}"
    assert driver.events(claim.id)[-1].detail["error_class"] == "X_RETRY_LATER_SPENT"


def test_retry_by_hand_gives_all_deferrals_anew(driver: Harness) -> None:
    """What was counted belongs to the life that ended."""
    claim = driver.running()
    write(driver, claim, raised(RetryLater(delay=0))(claim))
    claim = driver.claim_one()
    write(driver, claim, raised(RetryLater(delay=0), Retry(deferrals=0))(claim))
    assert driver.get(claim.id).deferrals == 1

    driver.retry(claim.id)

    assert driver.get(claim.id).deferrals == 0


def test_discard_keeps_its_error_in_the_history(driver: Harness) -> None:
    """Whoever asks later finds which error it was."""
    claim = driver.running()

    write(driver, claim, raised(KeyError("gone"))(claim))

    event = driver.events(claim.id)[-1]
    assert (event.type, event.detail["error_class"]) == ("discarded", "KeyError")
    assert event.detail["message"] == "'gone'"


def test_deferral_of_a_job_that_is_to_be_cancelled_cancels_it(driver: Harness) -> None:
    """A requested cancel beats a wish to come again."""
    claim = driver.running()
    driver.cancel(claim.id)

    write(driver, claim, raised(RetryLater())(claim))

    assert driver.get(claim.id).state is JobState.CANCELLED


def test_negative_delay_of_a_shed_is_no_delay(driver: Harness) -> None:
    """A wait that lies in the past neither moves the job forward in line nor fails."""
    claim = driver.running()
    write(driver, claim, attempts.hand_back(claim, delay_ms=-5000))

    job = driver.get(claim.id)
    assert job.run_at >= job.created_at
    assert job.attempt == 0


def test_timeout_names_the_job_and_its_seconds(driver: Harness) -> None:
    """The stored error is the one of the page."""
    claim = driver.running()

    write(driver, claim, timed_out(claim))

    expected = AttemptTimedOut(job=claim.name, seconds=30, stopped=True)
    assert driver.get(claim.id).last_error == f"X_ATTEMPT_TIMEOUT: {expected.cause}"
