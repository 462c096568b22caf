"""What a body leaves in its thread, and the place to clean it up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.test import override_settings

from tests.processes.test_worker import declare, states
from ultimate_jobs import JobContext, Retry
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.processes.worker import Worker
from ultimate_jobs.states import JobState

PATIENCE = 20
# What a database router reads, for example.
ROUTE = threading.local()


class ClearsTheRoute:
    """Middleware of a site that keeps something in its threads."""

    @contextmanager
    def attempt(self, context: JobContext) -> Iterator[None]:
        try:
            yield
        finally:
            ROUTE.__dict__.clear()


def _fail() -> None:
    raise ValueError("before it was cleared")


def _exit() -> None:
    raise SystemExit(1)


def _overrun() -> None:
    ends_at = time.monotonic() + 20
    while time.monotonic() < ends_at:
        sum(range(100))


def burst(memory: MemoryDriver) -> None:
    """Run what is due; a body that is never left alone would keep the worker for ever."""
    clean: list[bool] = []
    worker = Worker(memory, burst=True, threads=1)
    runner = threading.Thread(target=lambda: clean.append(worker.run()), daemon=True)
    runner.start()
    runner.join(PATIENCE)
    assert clean == [True]


@override_settings(
    ULTIMATE_JOBS={"MIDDLEWARE": ["tests.processes.test_thread_locals.ClearsTheRoute"]}
)
@pytest.mark.parametrize(
    ("leave", "end"),
    [
        (_fail, JobState.DEAD),
        (_exit, JobState.DEAD),
        (_overrun, JobState.DEAD),
        (lambda: None, JobState.COMPLETED),
    ],
)
def test_middleware_cleans_the_thread_however_the_body_ended(
    memory: MemoryDriver, leave: Callable[[], None], end: JobState
) -> None:
    """The next body in the thread finds nothing of it, after an error and after a timeout too."""
    found: list[tuple[int, Any]] = []

    def first(ctx: JobContext, number: int) -> None:
        found.append((threading.get_ident(), vars(ROUTE).copy()))
        ROUTE.alias = "reports"
        leave()

    def second(ctx: JobContext, number: int) -> None:
        found.append((threading.get_ident(), vars(ROUTE).copy()))

    leaks = declare(first, "leaks", retry=Retry(attempts=1), priority=10, timeout=0.3)
    looks = declare(second, "looks")
    leaks.enqueue(number=1)
    looks.enqueue(number=2)

    burst(memory)

    assert len(found) == 2
    assert found[0] == found[1]
    assert found[1][1] == {}
    assert states(memory) == {end, JobState.COMPLETED}
