"""How many attempts a job has and how long it waits between them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeGuard, get_args

from ultimate_jobs.errors import JobOptionInvalid

BackoffName = Literal["fixed", "linear", "exponential"]
Backoff = BackoffName | Callable[[int], float | timedelta]

MAX_ATTEMPTS = 1000
MAX_DELAY_SECONDS = 366 * 86_400


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

    Raises:
        JobOptionInvalid: a value is outside its range.
    """

    attempts: int = 8
    backoff: Backoff = "exponential"
    delay: float | timedelta = 5.0
    max_delay: float | timedelta = 3600.0
    jitter: float = 0.1

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

    @property
    def backoff_name(self) -> str:
        """The name that ``describe()`` shows; a callable is ``custom``."""
        return self.backoff if isinstance(self.backoff, str) else "custom"

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
