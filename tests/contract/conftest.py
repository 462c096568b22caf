"""Runs every test of this folder over every driver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .differences import why_skipped
from .harness import Harness, MemoryHarness, PostgresHarness
from .skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]


# The mark stands on the parameter: pytest-django creates only the databases that it can see are
# needed when it has collected.
@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.django_db)])
def driver(request: pytest.FixtureRequest) -> Iterator[Harness]:
    """A driver with nothing of this test in it yet, a movable clock, and a queue of its own."""
    why = why_skipped(request.node.originalname, request.param)
    if why is not None:
        pytest.skip(why)
    harness = MemoryHarness() if request.param == "memory" else PostgresHarness()
    yield harness
    harness.close()
