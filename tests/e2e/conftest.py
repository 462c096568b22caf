"""Fixtures of the tests that start real processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import Database, Worker

StartWorker = Callable[..., Worker]


@pytest.fixture(autouse=True)
def only_where_processes_can_be_stopped() -> None:
    """SIGSTOP, SIGKILL and /proc are what these tests are made of."""
    if not os.path.isdir("/proc/self"):
        pytest.skip("needs /proc")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """The test database, asked by SQL."""
    opened = Database(database_url)
    yield opened
    opened.close()


@pytest.fixture
def start_worker(database: Database, tmp_path: Path) -> Iterator[StartWorker]:
    """Start workers on the test database; none outlives its test."""
    workers: list[Worker] = []

    def start(*arguments: str, **options: Any) -> Worker:
        log = tmp_path / f"worker-{len(workers)}.log"
        workers.append(Worker(database, log, *arguments, **options))
        return workers[-1]

    yield start
    for worker in workers:
        worker.end()
