"""The one source of now in Python: epoch milliseconds from an injectable clock.

PostgreSQL never asks it: there every statement takes its time from ``x_now()``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], int]


def system_clock() -> int:
    """Return the wall clock in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def to_datetime(epoch_ms: int) -> datetime:
    """Return epoch milliseconds as an aware UTC datetime."""
    return datetime.fromtimestamp(epoch_ms / 1000, tz=UTC)


def to_epoch_ms(moment: datetime) -> int:
    """Return an aware datetime as epoch milliseconds, rounded down."""
    return int(moment.timestamp() * 1000)


class MovableClock:
    """A clock for tests: it stands still until it is told to move."""

    def __init__(self, start_ms: int = 1_767_225_600_000) -> None:
        self._now_ms = start_ms

    def __call__(self) -> int:
        return self._now_ms

    def advance(self, milliseconds: int) -> None:
        """Move by this many milliseconds; a negative number moves back."""
        self._now_ms += milliseconds
