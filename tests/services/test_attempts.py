"""What an attempt that ended asks to be written."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from ultimate_jobs.interruptions import AttemptTimeout, ClaimLost, Interruption, JobCancelled
from ultimate_jobs.retry import Retry, RetryLater
from ultimate_jobs.services import attempts
from ultimate_jobs.services.context import JobContext
from ultimate_jobs.types import Claim, Completion, Nack

FIXED = Retry(attempts=3, backoff="fixed", delay=7, jitter=0)


def a_claim(**fields: Any) -> Claim:
    values: dict[str, Any] = {
        "id": uuid4(),
        "run_id": uuid4(),
        "name": "tests.any",
        "queue": "default",
        "tenant": None,
        "key": "any",
        "payload": "{}",
        "worker": uuid4(),
        "token": 5,
        "attempt": 1,
        "max_attempts": 3,
        "lost_leases": 0,
        "retry_count": 0,
        "priority": 0,
        "due_at": datetime(2026, 1, 1, tzinfo=UTC),
        "traceparent": None,
    }
    return Claim(**{**values, **fields})


def completed(claim: Claim, value: object, *, context: JobContext | None = None) -> object:
    context = context or JobContext(claim)
    return attempts.complete(claim, context, value, job=claim.name, max_bytes=100, retry=FIXED)


def failed(claim: Claim, error: BaseException, *, retry: Retry = FIXED) -> Nack:
    ending = attempts.fail(claim, JobContext(claim), error, retry=retry)
    assert isinstance(ending, Nack)
    return ending


def interrupted(claim: Claim, interruption: Interruption) -> JobContext:
    """Return a context whose check() has raised."""
    context = JobContext(claim)
    context.interrupt(interruption)
    with pytest.raises(type(interruption)):
        context.check()
    return context


def test_complete_stores_result_as_json() -> None:
    """A body that returned is a completion with its value."""
    claim = a_claim()

    assert completed(claim, {"a": [1]}) == Completion(claim.id, 5, '{"a":[1]}')


def test_complete_without_value_stores_none() -> None:
    """None is no result, rather than JSON's null."""
    claim = a_claim()

    assert completed(claim, None) == Completion(claim.id, 5, None)


class RefusesToBeDumped(dict[str, int]):
    def items(self) -> Any:
        raise SystemExit(1)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": "x\x00y"}, "result.a"),
        ({"k\x00": 1}, "result"),
        ({1: 2}.items(), "result"),
        ((one for one in [1]), "result"),
        (float("nan"), "result"),
        ("x" * 200, "result"),
        (RefusesToBeDumped(), "result"),
    ],
)
def test_complete_with_unstorable_result_ends_dead_at_once(value: object, path: str) -> None:
    """Its effects have happened, so no further attempt repeats them; the place is named."""
    claim = a_claim(attempt=1, max_attempts=3)

    ending = completed(claim, value)

    assert isinstance(ending, Nack)
    assert ending.dead_letter
    assert ending.counts_as_attempt
    assert ending.failure is not None
    assert ending.failure.error_class == "X_RESULT_INVALID"
    assert path in ending.failure.message


def test_fail_waits_for_backoff_and_counts() -> None:
    """An attempt that failed is used up, and the next comes after its delay."""
    ending = failed(a_claim(attempt=2), ValueError("boom"))

    assert ending.counts_as_attempt
    assert not ending.dead_letter
    assert ending.delay_ms == 7_000
    assert ending.failure is not None
    assert ending.failure.message == "boom"


@pytest.mark.parametrize(("attempt", "most"), [(3, 3), (1, 1), (4, 3)])
def test_fail_at_last_attempt_ends_dead(attempt: int, most: int) -> None:
    """The stored number of attempts decides, not today's declaration."""
    ending = failed(
        a_claim(attempt=attempt, max_attempts=most), ValueError(), retry=Retry(attempts=100)
    )

    assert ending.dead_letter
    assert ending.failure is not None


@pytest.mark.parametrize(
    "error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()]
)
def test_fail_by_base_exception_is_a_failed_attempt(error: BaseException) -> None:
    """What would end a process ends the attempt."""
    ending = failed(a_claim(), error)

    assert ending.counts_as_attempt
    assert ending.delay_ms == 7_000


@pytest.mark.parametrize("error", [ZeroDivisionError("nought"), SystemExit(1)])
def test_fail_where_backoff_raises_takes_longest_delay_and_says_so(error: BaseException) -> None:
    """The app's own backoff cannot lose the failure."""

    def broken(attempt: int) -> float:
        raise error

    ending = failed(
        a_claim(), ValueError("boom"), retry=Retry(backoff=broken, max_delay=60, jitter=0)
    )

    assert ending.delay_ms == 60_000
    assert ending.failure is not None
    assert ending.failure.message.startswith("boom\n")
    assert f"its backoff raised {type(error).__name__}" in ending.failure.message


@pytest.mark.parametrize("answer", [float("nan"), float("inf"), -5, "soon", None])
def test_fail_where_backoff_answers_nonsense_still_waits_within_bounds(answer: Any) -> None:
    """Whatever a callable returns, the wait is between nothing and the longest delay."""
    ending = failed(a_claim(), ValueError(), retry=Retry(backoff=lambda _: answer, max_delay=60))

    assert 0 <= ending.delay_ms <= 60_000


def test_fail_by_check_of_cancelled_run_hands_back_uncounted() -> None:
    """The driver turns it into cancelled; no error is recorded."""
    claim = a_claim(attempt=3)
    context = interrupted(claim, JobCancelled())

    ending = attempts.fail(claim, context, JobCancelled(), retry=FIXED)

    assert ending == Nack(claim.id, 5, counts_as_attempt=False)


def test_fail_by_error_after_cancel_was_seen_hands_back_uncounted() -> None:
    """A cancelled body that raises something else while it cleans up does not retry."""
    claim = a_claim()
    context = interrupted(claim, JobCancelled())

    ending = attempts.fail(claim, context, ValueError("while cleaning up"), retry=FIXED)

    assert ending == Nack(claim.id, 5, counts_as_attempt=False)


def test_fail_by_lost_claim_writes_nothing() -> None:
    """The claim is another's: neither a failure nor a completion may be written."""
    claim = a_claim()
    context = interrupted(claim, ClaimLost())

    assert attempts.fail(claim, context, ClaimLost(), retry=FIXED) is None
    assert completed(claim, "late", context=context) is None


def test_complete_where_body_swallowed_cancel_hands_back() -> None:
    """A body that swallowed what check() raised never completes."""
    claim = a_claim()

    ending = completed(claim, "done anyway", context=interrupted(claim, JobCancelled()))

    assert ending == Nack(claim.id, 5, counts_as_attempt=False)


def test_fail_by_interruption_nobody_asked_for_is_a_failed_attempt() -> None:
    """A body that raises JobCancelled itself does not become an endless loop of hand-backs."""
    ending = failed(a_claim(), JobCancelled())

    assert ending.counts_as_attempt
    assert ending.failure is not None


def test_hand_back_moves_nothing_but_the_claim() -> None:
    """Unstarted work goes back as if it had not been claimed."""
    claim = a_claim()

    assert attempts.hand_back(claim) == Nack(claim.id, 5, counts_as_attempt=False)


def test_fail_by_an_error_outside_of_retry_on_ends_dead_at_once() -> None:
    """Attempts that are left do not help against what another try meets again."""
    retry = Retry(attempts=3, retry_on=(ConnectionError,))

    assert failed(a_claim(), ValueError("no"), retry=retry).dead_letter
    assert not failed(a_claim(), ConnectionResetError(), retry=retry).dead_letter


@pytest.mark.parametrize("attempt", [1, 3])
def test_fail_by_an_error_of_discard_on_is_discarded(attempt: int) -> None:
    """It wins over retry_on, and over the last attempt."""
    retry = Retry(attempts=3, retry_on=(LookupError,), discard_on=(KeyError,))

    ending = failed(a_claim(attempt=attempt), KeyError("gone"), retry=retry)

    assert (ending.discard, ending.dead_letter) == (True, False)
    assert ending.failure is not None
    assert ending.failure.error_class == "KeyError"


@pytest.mark.parametrize("counts", [True, False])
def test_fail_by_retry_later_defers(counts: bool) -> None:
    """No failure is recorded; the cap is the job's own or the setting's."""
    ending = failed(a_claim(), RetryLater(delay=5, counts=counts, reason="a\x00b"))

    assert (ending.counts_as_attempt, ending.delay_ms, ending.failure) == (counts, 5000, None)
    assert ending.deferral is not None
    assert (ending.deferral.limit, ending.deferral.reason) == (1000, "a\\x00b")
    assert ending.deferral.spent.error_class == "X_RETRY_LATER_SPENT"
    own = failed(a_claim(), RetryLater(), retry=Retry(deferrals=7))
    assert own.deferral is not None
    assert own.deferral.limit == 7


def test_fail_by_retry_later_that_counts_at_the_last_attempt_ends_dead() -> None:
    """A counted deferral is an attempt like another."""
    ending = failed(a_claim(attempt=3), RetryLater(counts=True))

    assert ending.dead_letter
    assert ending.failure is not None
    assert ending.failure.error_class == "X_RETRY_LATER_SPENT"
    assert "3 attempts" in ending.failure.message


def timed_out_context(claim: Claim) -> JobContext:
    context = JobContext(claim)
    context.limit(30)
    context.interrupt(AttemptTimeout())
    context.remember_interrupted()
    return context


@pytest.mark.parametrize("error", [AttemptTimeout(), ValueError("while cleaning up")])
def test_fail_by_a_timeout_is_a_failed_attempt_whatever_retry_on_says(
    error: BaseException,
) -> None:
    """It is no error of the body's own, and never discarded."""
    claim = a_claim()
    retry = Retry(retry_on=(ConnectionError,), discard_on=(ValueError,))

    ending = attempts.fail(claim, timed_out_context(claim), error, retry=retry)

    assert isinstance(ending, Nack)
    assert (ending.dead_letter, ending.discard, ending.counts_as_attempt) == (False, False, True)
    assert ending.failure is not None
    assert ending.failure.error_class == "X_ATTEMPT_TIMEOUT"


def test_complete_of_a_body_that_swallowed_its_timeout_fails() -> None:
    """It never completes, and at its last attempt it is dead."""
    claim = a_claim(attempt=3)

    ending = completed(claim, "done anyway", context=timed_out_context(claim))

    assert isinstance(ending, Nack)
    assert ending.dead_letter


def test_outlive_shows_where_the_body_hangs() -> None:
    """The traceback is of the running thread, as nothing was raised."""
    ending = attempts.outlive(a_claim(), 30, sys._getframe(), retry=FIXED)

    assert ending.failure is not None
    assert "did not stop" in ending.failure.message
    assert "test_outlive_shows_where_the_body_hangs" in ending.failure.traceback
