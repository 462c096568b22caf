"""Runs every test of this folder over every driver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .differences import why_skipped
from .harness import Harness, MemoryHarness, PostgresHarness
from .skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]


@pytest.fixture(params=["memory", "postgres"])
def driver(request: pytest.FixtureRequest) -> Iterator[Harness]:
    """A driver with nothing of this test in it yet, a movable clock, and a queue of its own."""
    why = why_skipped(request.node.originalname, request.param)
    if why is not None:
        pytest.skip(why)
    if request.param == "postgres":
        request.getfixturevalue("db")
    harness = MemoryHarness() if request.param == "memory" else PostgresHarness()
    yield harness
    harness.close()
