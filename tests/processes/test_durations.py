"""What may wait unstarted is worth a fixed time, judged by how long jobs take."""

from __future__ import annotations

import pytest

from ultimate_jobs.processes.durations import Durations, prefetch


def test_average_rises_fast_and_falls_slowly() -> None:
    """One long job is felt at once, and one short job is not yet trusted."""
    durations = Durations()
    for _ in range(10):
        durations.note(0.001)

    durations.note(10.0)
    risen = durations.average
    durations.note(0.001)

    assert risen is not None
    assert risen > 1.0
    assert durations.average is not None
    assert durations.average > 0.9 * risen


@pytest.mark.parametrize(
    ("average", "nimble", "expected"),
    [
        (None, 8, 0),
        (5.0, 8, 0),
        (0.201, 8, 0),
        (0.2, 8, 8),
        (0.1, 8, 16),
        (0.001, 8, 100),
        (0.0, 8, 100),
        (0.001, 0, 0),
        (0.1, 1, 2),
    ],
)
def test_prefetch_is_worth_its_time(average: float | None, nimble: int, expected: int) -> None:
    """Nothing where durations are unknown or long, never more than the batch."""
    assert prefetch(average, worth=0.2, nimble=nimble, most=100) == expected
