"""Fixtures of the worker's parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.processes.fakes import recorded_events
from ultimate_jobs.drivers import use_driver
from ultimate_jobs.drivers.memory import MemoryDriver


@pytest.fixture
def heard() -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """The events of this test, as they are emitted."""
    with recorded_events() as events:
        yield events


@pytest.fixture
def memory(own_registry: None) -> Iterator[MemoryDriver]:
    """A queue in memory that enqueue() uses, and no declared job."""
    driver = MemoryDriver()
    use_driver(driver)
    yield driver
    use_driver(None)
    driver.close()
