"""What happened, in words."""

from __future__ import annotations

from collections.abc import Iterator

from example_project.places.demo.options import Options
from example_project.places.demo.result import Result


def report_lines(result: Result, options: Options, trace: list[str]) -> Iterator[str]:
    """Yield the figures, one job's trace, the verdict, and where to look further."""
    yield "What happened"
    for name, figure, meaning in _figures(result, options):
        yield f"  {name:<10}{figure:>9}   {meaning}"
    if trace:
        yield from ["", "One job's trace", *(f"  {line}" for line in trace)]
    yield ""
    yield from _verdict(result, options)
    yield from ["", "Look further"]
    yield "  python manage.py jobs stats"
    yield "  python manage.py jobs ls --state dead"
    if options.port is None:
        yield "  python manage.py demo --serve      the same again, then the admin in a browser"


def _figures(result: Result, options: Options) -> Iterator[tuple[str, str, str]]:
    whose = "one tenant" if result.tenants == 1 else f"{result.tenants} tenants"
    yield "enqueued", f"{result.enqueued:,}", f"accepted, from {whose}"
    yield (
        "deduped",
        f"{result.deduped:,}",
        f"asked again while the first was waiting, so no second job (--duplicates "
        f"{options.duplicates})",
    )
    yield "completed", f"{result.completed:,}", "ran to their end"
    yield "retried", f"{result.retried:,}", "failed at first and were tried again"
    yield (
        "dead",
        f"{result.dead:,}",
        f"failed at every attempt, and wait for a person (--poison {options.poison})",
    )
    yield "lost", f"{result.lost:,}", "accepted, and without any effect: recounted by SQL"
    yield "doubled", f"{result.doubled:,}", "with more than one effect: recounted by SQL"
    yield "speed", f"{result.jobs_per_second:,.0f}/s", "from the first claim to the last end"
    yield "time", f"{result.seconds:.1f} s", "all in all"


def _verdict(result: Result, options: Options) -> Iterator[str]:
    faults = result.faults(options)
    if not faults:
        yield "Every accepted job had its effect exactly once. Nothing was lost, nothing doubled."
        return
    yield "This is not what was promised:"
    for fault in faults:
        yield f"  {fault}"
