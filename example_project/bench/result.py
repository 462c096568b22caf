"""The figures of a run as one object."""

from __future__ import annotations

from typing import Any

from example_project.bench.arithmetic import ratio
from example_project.bench.options import GROWTH, RATIOS, Options
from example_project.bench.session import CEILING, OURS, Session

STARTS = ("start_p50", "start_p95", "start_p99")
CHURNS = ("churn_300k", "held_snapshot")


def result_of(session: Session, options: Options, machine: dict[str, Any]) -> dict[str, Any]:
    """Return the object that ``--json`` prints; what was not measured is null.

    Rates are per second, ``start_*`` are milliseconds, and a growth is a rate over the rate on a
    small table.
    """
    return {
        "machine": machine,
        "sizes": {"quick": options.is_quick, **session.sizes.as_dict()},
        "ceiling": _figures(session, CEILING, _beside_a_ceiling()),
        "ours": _figures(session, OURS, (*_beside_a_ceiling(), *GROWTH)),
        "ratio": {name: _ratio(session, name) for name in RATIOS},
        "growth": {**_growth(session), **_smallest_windows(session)},
        "cost": session.cost,
        "checks": session.checks,
    }


def _beside_a_ceiling() -> tuple[str, ...]:
    return tuple(dict.fromkeys((*RATIOS, *STARTS)))


def _figures(session: Session, side: str, names: tuple[str, ...]) -> dict[str, float | None]:
    found = {name: session.value(side, name) for name in names}
    return {
        name: None if value is None else round(value, 3 if name in STARTS else 1)
        for name, value in found.items()
    }


def _ratio(session: Session, name: str) -> float | None:
    return ratio(session.value(OURS, name), session.value(CEILING, name))


def _growth(session: Session) -> dict[str, float | None]:
    return {
        name: ratio(session.value(OURS, name), session.value(OURS, f"{name}_small"))
        for name in GROWTH
    }


def _smallest_windows(session: Session) -> dict[str, float | None]:
    """A window over the mean of its own run, not over the small table's rate."""
    names = [f"{name}_smallest_window" for name in CHURNS]
    return {name: session.value(OURS, name) for name in names}
