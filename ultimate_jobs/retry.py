"""How many attempts a job has, how long it waits between them, and which errors end it at once."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeGuard, get_args

from ultimate_jobs.errors import JobOptionInvalid
from ultimate_jobs.interruptions import Interruption

BackoffName = Literal["fixed", "linear", "exponential"]
Backoff = BackoffName | Callable[[int], float | timedelta]

MAX_ATTEMPTS = 1000
MAX_DELAY_SECONDS = 366 * 86_400
# What fits the column that counts them.
MAX_DEFERRALS = 32_767


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A retry policy.

    Attributes:
        attempts: tries in all, the first included; 1 means no retry.
        backoff: ``fixed`` waits ``delay`` each time, ``linear`` attempt x ``delay``,
            ``exponential`` ``delay`` x 2^(attempt - 1); or a callable that takes the number of
            the failed attempt (1 for the first) and returns seconds or a timedelta.
        delay: the unit of the named backoffs, seconds or a timedelta.
        max_delay: no wait is longer than this.
        jitter: up to this share of the wait is taken off at random, 0 to 1, so that jobs that
            failed together do not return together.
        retry_on: with these exception classes, any other error makes the job ``dead`` at once.
        discard_on: these end the job ``cancelled``, whatever ``retry_on`` says: the work is no
            longer wanted, as when its object was deleted.
        deferrals: how often a run may raise ``RetryLater``; by default the setting
            ``MAX_DEFERRALS``.

    Raises:
        JobOptionInvalid: a value is outside its range.
    """

    attempts: int = 8
    backoff: Backoff = "exponential"
    delay: float | timedelta = 5.0
    max_delay: float | timedelta = 3600.0
    jitter: float = 0.1
    retry_on: tuple[type[Exception], ...] = ()
    discard_on: tuple[type[Exception], ...] = ()
    deferrals: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.attempts, bool) or not isinstance(self.attempts, int):
            raise _invalid("attempts", "is not a whole number", "attempts=8")
        if not 1 <= self.attempts <= MAX_ATTEMPTS:
            raise _invalid("attempts", f"is not between 1 and {MAX_ATTEMPTS}", "attempts=8")
        if not callable(self.backoff) and self.backoff not in get_args(BackoffName):
            names = ", ".join(get_args(BackoffName))
            raise _invalid(
                "backoff", f"is neither callable nor one of {names}", 'backoff="exponential"'
            )
        if not _is_number(self.jitter) or not 0 <= self.jitter <= 1:
            raise _invalid("jitter", "is not between 0 and 1", "jitter=0.1")
        for option in ("delay", "max_delay"):
            value = getattr(self, option)
            if not isinstance(value, timedelta) and not _is_number(value):
                raise _invalid(option, "is neither seconds nor a timedelta", f"{option}=5")
            seconds = value.total_seconds() if isinstance(value, timedelta) else value
            if not 0 <= seconds <= MAX_DELAY_SECONDS:
                raise _invalid(option, "is not between 0 and a year", f"{option}=5")
        for option in ("retry_on", "discard_on"):
            _check_classes(option, getattr(self, option))
        if self.deferrals is not None:
            _check_deferrals(self.deferrals)

    @property
    def backoff_name(self) -> str:
        """The name that ``describe()`` shows; a callable is ``custom``."""
        return self.backoff if isinstance(self.backoff, str) else "custom"

    def discards(self, error: BaseException) -> bool:
        """Whether this error ends the job without a failure."""
        return isinstance(error, self.discard_on)

    def gives_up_on(self, error: BaseException) -> bool:
        """Whether no further attempt follows this error."""
        return bool(self.retry_on) and not isinstance(error, self.retry_on)

    def wait_ms(self, attempt: int, *, chance: Callable[[], float] = random.random) -> int:
        """Return the wait after this failed attempt, in milliseconds.

        Args:
            attempt: the number of the attempt that failed, 1 for the first.
            chance: a source of numbers in [0, 1) for the jitter.

        Raises:
            TypeError, ValueError: a callable backoff returned no number; what it raises itself
                passes through.
        """
        longest = _seconds(self.max_delay)
        base = min(longest, max(0.0, self._base_seconds(attempt)))
        return round(base * (1 - self.jitter * chance()) * 1000)

    def _base_seconds(self, attempt: int) -> float:
        unit = _seconds(self.delay)
        if callable(self.backoff):
            return _checked_seconds(self.backoff(attempt))
        if self.backoff == "fixed":
            return unit
        if self.backoff == "linear":
            return unit * attempt
        # Beyond 2^62 a float still compares correctly against max_delay; a larger power overflows.
        return unit * 2.0 ** min(attempt - 1, 62)


class RetryLater(Interruption):
    """Raised by a body that cannot do its work yet: the run comes again after a delay.

    Not an ``Exception``, so that a body's ``except Exception`` neither logs it as an error nor
    lets the job complete without its work.

    Args:
        delay: seconds or a timedelta, up to a year; by default a minute.
        counts: whether this uses up an attempt, as a failure would.
        reason: why, for the run's history; never put an input in it.

    Raises:
        JobOptionInvalid: an argument has the wrong type or range.
    """

    def __init__(
        self, delay: float | timedelta = 60.0, *, counts: bool = False, reason: str = ""
    ) -> None:
        self.delay_ms = _delay_ms(delay)
        if not isinstance(counts, bool):
            raise _invalid_later("counts", f"is {type(counts).__name__}, not bool", "counts=True")
        if not isinstance(reason, str):
            problem = f"is {type(reason).__name__}, not str"
            raise _invalid_later("reason", problem, 'reason="not ready"')
        self.counts = counts
        self.reason = reason
        super().__init__(f"again in {self.delay_ms} ms")


def _delay_ms(delay: object) -> int:
    if not isinstance(delay, timedelta) and not _is_number(delay):
        raise _invalid_later("delay", "is neither seconds nor a timedelta", "delay=60")
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if not 0 <= seconds <= MAX_DELAY_SECONDS:
        raise _invalid_later("delay", "is not between 0 and a year", "delay=60")
    return round(seconds * 1000)


def _check_classes(option: str, given: object) -> None:
    example = f"{option}=(ConnectionError,)"
    if not isinstance(given, tuple):
        raise _invalid(option, "is no tuple of exception classes", example)
    for place, one in enumerate(given):
        if not isinstance(one, type) or not issubclass(one, BaseException):
            raise _invalid(f"{option}[{place}]", "is no exception class", example)
        if issubclass(one, Interruption):
            problem = f"is {one.__name__}, which stops a body and is no error of it"
            raise _invalid(f"{option}[{place}]", problem, example)
        if not issubclass(one, Exception):
            problem = f"is {one.__name__}, which is no Exception and stops more than a body"
            raise _invalid(f"{option}[{place}]", problem, example)


def _check_deferrals(given: object) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= MAX_DEFERRALS:
        raise _invalid("deferrals", f"is no whole number from 0 to {MAX_DEFERRALS}", "deferrals=10")


def _seconds(value: float | timedelta) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def _checked_seconds(value: object) -> float:
    if not isinstance(value, timedelta) and not _is_number(value):
        raise TypeError(f"backoff returned {type(value).__name__}, neither seconds nor timedelta")
    seconds = _seconds(value)
    if math.isnan(seconds):
        raise ValueError("backoff returned NaN")
    return seconds


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _invalid(option: str, problem: str, example: str) -> JobOptionInvalid:
    return JobOptionInvalid(option=f"Retry.{option}", problem=problem, fix=f"use Retry({example})")


def _invalid_later(option: str, problem: str, example: str) -> JobOptionInvalid:
    fix = f"raise RetryLater({example})"
    return JobOptionInvalid(option=f"RetryLater.{option}", problem=problem, fix=fix)
