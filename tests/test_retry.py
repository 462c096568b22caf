"""Retry: ranges are checked where it is written, and every wait is finite and bounded."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ultimate_jobs.errors import JobOptionInvalid
from ultimate_jobs.interruptions import JobCancelled
from ultimate_jobs.retry import MAX_ATTEMPTS, Retry, RetryLater

BIGINT = 2**63 - 1
NO_JITTER = {"jitter": 0.0}


def test_retry_without_arguments_is_the_default_policy() -> None:
    """The documented default: eight attempts, exponential from five seconds, an hour at most."""
    policy = Retry()

    assert (policy.attempts, policy.backoff, policy.backoff_name) == (
        8,
        "exponential",
        "exponential",
    )
    assert policy.wait_ms(1, chance=lambda: 0.0) == 5_000
    assert policy.wait_ms(500, chance=lambda: 0.0) == 3_600_000


def test_retry_is_frozen_and_takes_keywords_only() -> None:
    """A policy is shared by every run of a job, so nobody changes it."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Retry().attempts = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        Retry(3)  # type: ignore[misc]


@pytest.mark.parametrize("attempts", [1, 2, MAX_ATTEMPTS])
def test_attempts_within_the_range_are_taken(attempts: int) -> None:
    """One means no retry; the bounds themselves are allowed."""
    assert Retry(attempts=attempts).attempts == attempts


@pytest.mark.parametrize("attempts", [0, -1, MAX_ATTEMPTS + 1, True, 2.0, "3", None])
def test_attempts_out_of_range_or_type_are_refused(attempts: Any) -> None:
    """A zero is refused in words and never read as "not set"."""
    with pytest.raises(JobOptionInvalid) as caught:
        Retry(attempts=attempts)

    assert "Retry.attempts" in caught.value.cause


@pytest.mark.parametrize("backoff", ["", "Fixed", "expo", None, 5, ["fixed"]])
def test_backoff_of_another_name_is_refused(backoff: Any) -> None:
    """Only the three names and callables are backoffs, and the refusal lists them."""
    with pytest.raises(JobOptionInvalid) as caught:
        Retry(backoff=backoff)

    assert "fixed, linear, exponential" in caught.value.cause


@pytest.mark.parametrize("option", ["delay", "max_delay"])
@pytest.mark.parametrize(
    "value",
    [-1, -0.001, timedelta(seconds=-1), float("nan"), float("inf"), timedelta.max, 10**400],
    ids=["-1", "-1ms", "-1s", "nan", "inf", "timedelta.max", "10^400"],
)
def test_delay_out_of_range_is_refused(option: str, value: Any) -> None:
    """A wait that no column can hold is refused where it is written, not when a job fails."""
    with pytest.raises(JobOptionInvalid) as caught:
        Retry(**{option: value})

    assert f"Retry.{option}" in caught.value.cause


@pytest.mark.parametrize("option", ["delay", "max_delay", "jitter"])
@pytest.mark.parametrize("value", ["5", None, True, b"5", [5]])
def test_delay_or_jitter_of_another_type_is_refused(option: str, value: Any) -> None:
    """Text that reads like a number is no number."""
    with pytest.raises(JobOptionInvalid) as caught:
        Retry(**{option: value})

    assert f"Retry.{option}" in caught.value.cause


@pytest.mark.parametrize("jitter", [-0.01, 1.01, float("nan"), float("inf")])
def test_jitter_out_of_range_is_refused(jitter: float) -> None:
    """Jitter takes a share off, between nothing and all."""
    with pytest.raises(JobOptionInvalid):
        Retry(jitter=jitter)


@pytest.mark.parametrize("zero", [0, 0.0, timedelta(0)])
def test_delay_of_zero_is_honoured(zero: Any) -> None:
    """An explicit 0 means at once, and is never replaced by the default."""
    policy = Retry(backoff="fixed", delay=zero, **NO_JITTER)

    assert policy.wait_ms(1) == 0


def test_max_delay_of_zero_is_honoured() -> None:
    """The cap bounds every wait, also when it is 0."""
    assert Retry(max_delay=0).wait_ms(9) == 0


def test_jitter_of_zero_is_honoured() -> None:
    """Without jitter every wait is exact."""
    policy = Retry(backoff="fixed", delay=7, **NO_JITTER)

    assert {policy.wait_ms(1) for _ in range(50)} == {7_000}


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        ("fixed", [2_000, 2_000, 2_000, 2_000]),
        ("linear", [2_000, 4_000, 6_000, 8_000]),
        ("exponential", [2_000, 4_000, 8_000, 16_000]),
    ],
)
def test_wait_of_a_named_backoff_grows_as_documented(backoff: Any, waits: list[int]) -> None:
    """The first wait is one unit; then each by its name."""
    policy = Retry(backoff=backoff, delay=2, **NO_JITTER)

    assert [policy.wait_ms(attempt) for attempt in (1, 2, 3, 4)] == waits


@pytest.mark.parametrize("unit", [0.25, timedelta(milliseconds=250)])
def test_wait_keeps_fractions_of_a_second(unit: Any) -> None:
    """A quarter of a second is 250 milliseconds, however it is written."""
    assert Retry(backoff="fixed", delay=unit, **NO_JITTER).wait_ms(1) == 250


def test_wait_is_never_longer_than_max_delay() -> None:
    """The cap holds before the jitter is taken off."""
    policy = Retry(backoff="exponential", delay=1, max_delay=10, **NO_JITTER)

    assert [policy.wait_ms(attempt) for attempt in (4, 5, 1000)] == [8_000, 10_000, 10_000]


@pytest.mark.parametrize(("chance", "wait"), [(0.0, 10_000), (0.5, 7_500), (0.999999, 5_000)])
def test_jitter_takes_off_up_to_its_share(chance: float, wait: int) -> None:
    """Jitter shortens a wait and never lengthens it."""
    policy = Retry(backoff="fixed", delay=10, jitter=0.5)

    assert policy.wait_ms(1, chance=lambda: chance) == wait


@settings(deadline=None)
@given(
    attempt=st.integers(1, 10**9),
    backoff=st.sampled_from(["fixed", "linear", "exponential"]),
    delay=st.floats(0, 366 * 86_400),
    max_delay=st.floats(0, 366 * 86_400),
    jitter=st.floats(0, 1),
    chance=st.floats(0, 1, exclude_max=True),
)
def test_wait_of_any_policy_is_whole_and_bounded(
    attempt: int, backoff: Any, delay: float, max_delay: float, jitter: float, chance: float
) -> None:
    """No policy and no number of attempts overflows, goes negative or passes the cap."""
    policy = Retry(backoff=backoff, delay=delay, max_delay=max_delay, jitter=jitter)

    wait = policy.wait_ms(attempt, chance=lambda: chance)

    assert isinstance(wait, int)
    assert 0 <= wait <= round(max_delay * 1000) <= BIGINT


@pytest.mark.parametrize("answer", [3, 3.0, timedelta(seconds=3)])
def test_wait_of_a_callable_is_its_answer(answer: Any) -> None:
    """A callable gets the number of the failed attempt and returns seconds or a timedelta."""
    asked: list[int] = []

    def backoff(attempt: int) -> Any:
        asked.append(attempt)
        return answer

    policy = Retry(backoff=backoff, **NO_JITTER)

    assert policy.wait_ms(4) == 3_000
    assert asked == [4]
    assert policy.backoff_name == "custom"


@pytest.mark.parametrize("answer", [-5, timedelta(days=-1), float("-inf")])
def test_wait_of_a_callable_below_zero_is_none(answer: Any) -> None:
    """A moment that has passed is at once."""
    assert Retry(backoff=lambda attempt: answer).wait_ms(1) == 0


@pytest.mark.parametrize("answer", [10**9, float("inf"), timedelta.max])
def test_wait_of_a_callable_is_capped(answer: Any) -> None:
    """The cap holds for callables too."""
    assert Retry(backoff=lambda attempt: answer, max_delay=60, **NO_JITTER).wait_ms(1) == 60_000


@pytest.mark.parametrize("answer", [None, "5", True, [], float("nan")])
def test_wait_of_a_callable_without_a_number_raises(answer: Any) -> None:
    """What is no wait is never guessed; the failure path then takes the longest one."""
    policy = Retry(backoff=lambda attempt: answer)

    with pytest.raises((TypeError, ValueError)):
        policy.wait_ms(1)


def test_wait_passes_on_what_a_callable_raises() -> None:
    """The app's own error is not dressed up as ours."""

    def backoff(attempt: int) -> float:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Retry(backoff=backoff).wait_ms(1)


class Transient(Exception):
    """An error that another attempt may not meet."""


class Gone(Transient):
    """An error after which the work is no longer wanted."""


def test_retry_on_gives_up_on_every_other_error() -> None:
    """Subclasses count, as in an ``except`` clause; without the option no error is given up on."""
    policy = Retry(retry_on=(Transient, OSError))

    assert not policy.gives_up_on(Transient())
    assert not policy.gives_up_on(Gone())
    assert not policy.gives_up_on(ConnectionError())
    assert policy.gives_up_on(ValueError())
    assert policy.gives_up_on(SystemExit())
    assert not Retry().gives_up_on(ValueError())


def test_discard_on_names_what_ends_without_failure() -> None:
    """Nothing is discarded by default."""
    assert Retry(discard_on=(Gone,)).discards(Gone())
    assert not Retry(discard_on=(Gone,)).discards(Transient())
    assert not Retry().discards(Gone())


@pytest.mark.parametrize("option", ["retry_on", "discard_on"])
@pytest.mark.parametrize(
    ("given_classes", "place"),
    [
        (ValueError, ""),
        ([ValueError], ""),
        ("ValueError", ""),
        ((ValueError, "OSError"), "[1]"),
        ((ValueError(),), "[0]"),
        ((int,), "[0]"),
        ((JobCancelled,), "[0]"),
        ((RetryLater,), "[0]"),
        ((ValueError, BaseException), "[1]"),
        ((KeyboardInterrupt,), "[0]"),
    ],
)
def test_policy_with_classes_that_are_none_is_refused(
    option: str, given_classes: Any, place: str
) -> None:
    """A single class, a list, a name, an instance and an interruption are each told by place."""
    with pytest.raises(JobOptionInvalid) as refusal:
        Retry(**{option: given_classes})

    assert f"option Retry.{option}{place} is " in refusal.value.cause
    assert refusal.value.fix == f"use Retry({option}=(ConnectionError,))"


@pytest.mark.parametrize("deferrals", [-1, 32_768, True, 1.5, "3"])
def test_policy_with_impossible_deferrals_is_refused(deferrals: Any) -> None:
    """The column that counts them ends at 32,767."""
    with pytest.raises(JobOptionInvalid, match=r"Retry\.deferrals is no whole number"):
        Retry(deferrals=deferrals)


@pytest.mark.parametrize(
    ("delay", "expected"),
    [(0, 0), (1.5, 1500), (timedelta(minutes=1), 60_000)],
)
def test_retry_later_waits_its_delay(delay: Any, expected: int) -> None:
    """Seconds and a timedelta are one delay; an explicit 0 is at once."""
    later = RetryLater(delay=delay, reason="not yet")

    assert (later.delay_ms, later.counts, later.reason) == (expected, False, "not yet")


@pytest.mark.parametrize(
    "delay", [None, "5", True, float("nan"), float("inf"), 10**9, -5, timedelta(days=-1)]
)
def test_retry_later_with_a_delay_that_is_none_is_refused(delay: Any) -> None:
    """It fails as an error of the body, with the code, rather than waiting for ever."""
    with pytest.raises(JobOptionInvalid, match=r"RetryLater\.delay"):
        RetryLater(delay=delay)


@pytest.mark.parametrize(
    ("option", "value"), [("reason", 5), ("reason", None), ("counts", "x"), ("counts", 1)]
)
def test_retry_later_with_an_argument_of_another_type_is_refused(option: str, value: Any) -> None:
    """A text for ``counts`` is not read as yes, and the refusal says which argument it is."""
    with pytest.raises(JobOptionInvalid, match=rf"RetryLater\.{option} is {type(value).__name__}"):
        RetryLater(**{option: value})


def test_retry_later_without_arguments_waits_a_minute() -> None:
    """The documented default."""
    assert RetryLater().delay_ms == 60_000


def test_retry_later_passes_an_except_exception() -> None:
    """A body's own error handling neither logs it nor completes the job."""
    assert not issubclass(RetryLater, Exception)
