"""How long jobs take here, and how many may therefore wait unstarted in this process."""

from __future__ import annotations

# One slow job must count at once; only many quick ones in a row may win trust back.
RISE = 0.5
FALL = 0.05


class Durations:
    """A moving average of body durations that rises fast and falls slowly."""

    def __init__(self) -> None:
        self._average: float | None = None

    @property
    def average(self) -> float | None:
        """Seconds per job; ``None`` while nothing was measured."""
        return self._average

    def note(self, seconds: float) -> None:
        """Count one more body. Threads may race here: a lost sample does no harm."""
        average = self._average
        if average is None:
            self._average = seconds
        else:
            share = RISE if seconds > average else FALL
            self._average = average + share * (seconds - average)


def prefetch(average: float | None, *, worth: float, nimble: int, most: int) -> int:
    """Return how many jobs may wait unstarted so that none waits longer than ``worth`` seconds.

    Args:
        nimble: threads that are not held up in a long body.
    """
    if average is None or average > worth:
        return 0
    return min(most, int(worth * nimble / max(average, 1e-6)))
