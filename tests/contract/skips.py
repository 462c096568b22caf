"""Hooks of pytest: whatever is skipped outside the list of differences has failed."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from .differences import why_skipped

ELSEWHERE = "is skipped, and tests/contract/differences.py does not list it"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn an unlisted skip into a failure; an expected failure is a skip under another name."""
    report = yield
    if report.skipped and why_skipped(_test(item), _driver(item)) is None:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} {ELSEWHERE}: {report.longrepr}"
        report.__dict__.pop("wasxfail", None)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn the skip of a whole module into a failure: no list can name what was not collected."""
    report = yield
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid} {ELSEWHERE}: {report.longrepr}"
    return report


def _test(item: pytest.Item) -> str:
    return getattr(item, "originalname", None) or item.name


def _driver(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("driver") if callspec is not None else None
