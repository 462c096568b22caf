"""The flags of the bench: which phases, and how large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ultimate_jobs.errors import ArgumentInvalid

RATIOS = (
    "enqueue_one",
    "enqueue_many",
    "drain_noop_1",
    "drain_noop_2",
    "drain_insert_1",
    "start_p50",
)
GROWTH = (
    "ready_1m",
    "finished_5m",
    "tenants_1000",
    "queues_200",
    "churn_300k",
    "held_snapshot",
)
PHASES = (*RATIOS, *GROWTH, "cost")

SCALE_RANGE = (0.001, 100.0)
# Fewer would measure the clock.
LEAST_ROWS = 5


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much each phase does.

    Attributes:
        rounds: ours is measured so often, each between two ceilings; the medians count.
        noop: jobs of a drain, small-table or grown.
        ready, finished: rows that are there beside the drained ones.
        churn: jobs that come and go; ``backlog`` of them wait at a time.
        window_seconds: how finely the churn's rate is looked at.
    """

    rounds: int = 3
    enqueue_one: int = 4_000
    enqueue_many: int = 50_000
    noop: int = 40_000
    insert: int = 10_000
    starts: int = 300
    ready: int = 1_000_000
    finished: int = 5_000_000
    tenants: int = 1_000
    queues: int = 200
    churn: int = 300_000
    backlog: int = 5_000
    window_seconds: float = 5.0

    def as_dict(self) -> dict[str, int | float]:
        return asdict(self)

    def scaled(self, factor: float) -> Sizes:
        """Return these sizes times a factor; how often and how finely is left alone."""
        kept = {"rounds", "window_seconds"}
        numbers = {
            name: max(LEAST_ROWS, round(value * factor))
            for name, value in asdict(self).items()
            if name not in kept
        }
        return replace(self, **numbers)


QUICK = Sizes(
    rounds=1,
    enqueue_one=400,
    enqueue_many=8_000,
    noop=5_000,
    insert=500,
    starts=20,
    ready=50_000,
    finished=100_000,
    tenants=1_000,
    queues=200,
    churn=8_000,
    backlog=2_000,
    window_seconds=0.5,
)


@dataclass(frozen=True, slots=True)
class Options:
    """What one run of the bench was asked to do."""

    sizes: Sizes = Sizes()
    phases: tuple[str, ...] = PHASES
    is_quick: bool = False
    is_forced: bool = False


def read_options(given: Mapping[str, Any]) -> Options:
    """Return the flags, checked.

    Raises:
        ArgumentInvalid: a phase is none, or the scale is out of its range.
    """
    is_quick = bool(given.get("quick"))
    sizes = QUICK if is_quick else Sizes()
    scale = given.get("scale")
    return Options(
        sizes=sizes if scale is None else sizes.scaled(_factor(scale)),
        phases=_phases(given.get("only") or ()),
        is_quick=is_quick,
        is_forced=bool(given.get("force")),
    )


def _phases(asked: Sequence[str]) -> tuple[str, ...]:
    """Return the phases in the bench's own order, whatever the order asked."""
    for name in asked:
        if name not in PHASES:
            raise ArgumentInvalid(
                argument="--only",
                problem=f"takes {', '.join(PHASES)}, not {name[:40]!r}",
                fix="manage.py bench --only drain_noop_1",
            )
    return tuple(name for name in PHASES if name in asked) or PHASES


def _factor(text: str) -> float:
    least, most = SCALE_RANGE
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not least <= factor <= most:
        raise ArgumentInvalid(
            argument="--scale",
            problem=f"takes a number from {least:g} to {most:g}, not {text[:40]!r}",
            fix="manage.py bench --scale 0.5",
        )
    return factor
