"""The result in words, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from example_project.bench.result import STARTS
from ultimate_jobs.management.output import table


def report_lines(result: dict[str, Any]) -> Iterator[str]:
    """Return the lines: where it ran, then ratios, growth and cost."""
    yield from _machine(result["machine"], result["sizes"])
    for headings, rows in (
        (("figure", "ratio", "ours", "ceiling"), _ratios(result)),
        (("growth", "of small table", "rate", "smallest window"), _growth(result)),
        (("cost of a job", "ours", "ceiling"), _cost(result["cost"])),
    ):
        if lines := list(rows):
            yield ""
            yield table(headings, lines)
    for phase, check in result["checks"].items():
        if not check["agrees"]:
            yield f"{phase}: the server counted {check['row_updates']:,} updates, too few."


def _machine(machine: dict[str, Any], sizes: dict[str, Any]) -> Iterator[str]:
    load = " ".join(f"{value:.2f}" for value in machine["load_average"])
    yield (
        f"{machine['cpus']} processors, load {load}; Python {machine['python']},"
        f" PostgreSQL {machine['postgresql']} by {machine['reached_by']},"
        f" synchronous_commit {machine['synchronous_commit']}"
    )
    kind = "quick sizes" if sizes["quick"] else "sizes"
    shown = ", ".join(f"{name} {value:,}" for name, value in sizes.items() if name != "quick")
    yield f"{kind}: {shown}"


def _ratios(result: dict[str, Any]) -> Iterator[tuple[str | None, ...]]:
    names = [*result["ratio"], *(name for name in STARTS if name not in result["ratio"])]
    for name in names:
        ours, ceiling = result["ours"][name], result["ceiling"][name]
        if ours is not None:
            unit = "ms" if name in STARTS else "/s"
            ratio = result["ratio"].get(name)
            yield name, _number(ratio), _amount(ours, unit), _amount(ceiling, unit)


def _growth(result: dict[str, Any]) -> Iterator[tuple[str | None, ...]]:
    growth = result["growth"]
    for name, value in growth.items():
        if value is not None and name in result["ours"]:
            window = growth.get(f"{name}_smallest_window")
            yield name, _number(value), _amount(result["ours"][name], "/s"), _number(window)


def _cost(cost: dict[str, float]) -> Iterator[tuple[str, str, str | None]]:
    for name, value in cost.items():
        if not name.startswith("ceiling_"):
            ceiling = cost.get(f"ceiling_{name}")
            yield name, f"{value:,g}", None if ceiling is None else f"{ceiling:,g}"


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def _amount(value: float | None, unit: str) -> str | None:
    if value is None:
        return None
    return f"{value:.2f} {unit}" if unit == "ms" else f"{value:,.0f}{unit}"
