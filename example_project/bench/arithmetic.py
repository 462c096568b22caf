"""The arithmetic of the figures, apart from where they come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

DIGITS = 3


def per_second(count: int, seconds: float) -> float:
    """Return a rate; nothing in no time is 0."""
    return count / seconds if seconds > 0 else 0.0


def ratio(ours: float | None, other: float | None) -> float | None:
    """Return ours over the other; ``None`` where either was not measured."""
    if ours is None or not other:
        return None
    return round(ours / other, DIGITS)


def middle(values: Sequence[float]) -> float | None:
    """Return the median; ``None`` of nothing."""
    return median(values) if values else None


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that so many percent of all do not exceed (nearest rank)."""
    ordered = sorted(values)
    rank = max(1, math.ceil(percent / 100 * len(ordered)))
    return ordered[rank - 1]


def smallest_over_mean(counts: Sequence[int]) -> float | None:
    """Return the emptiest of equally long windows over the mean of all."""
    total = sum(counts)
    return round(min(counts) * len(counts) / total, DIGITS) if total else None


def whole_windows(counts: Sequence[int], seconds: float, window: float) -> list[int]:
    """Return the windows that lie wholly within the time; a cut-off one would look like a stall."""
    return list(counts[: int(seconds / window)])
