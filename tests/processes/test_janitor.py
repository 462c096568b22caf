"""The janitor sweeps until nothing is left, and says what it did."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from ultimate_jobs.processes.janitor import SWEEP, Janitor
from ultimate_jobs.states import JobState
from ultimate_jobs.types import Rescue


class Leases:
    def __init__(self, *batches: int) -> None:
        self.batches = list(batches)

    def rescue(self, *, limit: int) -> list[Rescue]:
        count = min(limit, self.batches.pop(0))
        worker = uuid4()
        return [
            Rescue(uuid4(), "x", worker, 1, 1, JobState.DEAD if one == 0 else JobState.READY)
            for one in range(count)
        ]


class Driver:
    alias = None

    def __init__(self, leases: Leases) -> None:
        self.leases = leases


def sweep(leases: Leases) -> float:
    janitor = Janitor(Driver(leases), interval=5.0, on_bug=lambda: None)  # type: ignore[arg-type]
    return janitor.sweep()


def test_sweep_goes_on_while_batches_are_full(heard: list[tuple[str, dict[str, Any]]]) -> None:
    """A crash of a large worker is cleaned up in one go."""
    leases = Leases(SWEEP, SWEEP, 3)

    pause = sweep(leases)

    assert leases.batches == []
    assert 4.0 <= pause <= 6.0
    assert [(name, facts["count"], facts["dead"]) for name, facts in heard] == [
        ("jobs.rescued", SWEEP, 1),
        ("jobs.rescued", SWEEP, 1),
        ("jobs.rescued", 3, 1),
    ]


def test_sweep_that_finds_nothing_says_nothing(heard: list[tuple[str, dict[str, Any]]]) -> None:
    """The usual sweep leaves no line in the log."""
    sweep(Leases(0))

    assert heard == []
