"""Limited jobs in a whole worker: what is full holds up nothing else, and drains steadily."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.test import override_settings

from tests.processes.test_worker import declare
from ultimate_jobs import JobContext, Limiter
from ultimate_jobs.drivers import use_driver
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.processes.worker import Worker
from ultimate_jobs.records import JobFilter, JobRecord
from ultimate_jobs.states import JobState

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = 20
# Long beyond this test's patience: nothing that is told to nobody is found in time.
DEAF = {"POLL": 600, "LEASE_TTL": 60}


@pytest.fixture(params=["memory", "postgres"])
def queue(request: pytest.FixtureRequest, own_registry: None) -> Iterator[Driver]:
    """Each driver, as the one that enqueue() uses."""
    driver: Driver = MemoryDriver() if request.param == "memory" else PostgresDriver("default")
    use_driver(driver)
    yield driver
    use_driver(None)
    driver.close()


class Meter:
    """How many bodies run at once, and the most that ever did."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = self.most = 0
        self.ended: list[int] = []

    @contextmanager
    def running(self, number: int) -> Iterator[None]:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            yield
        finally:
            with self._lock:
                self.now -= 1
                self.ended.append(number)


@contextmanager
def working(queue: Driver, **options: Any) -> Iterator[Worker]:
    """A worker in a thread of its own, which ends clean."""
    worker = Worker(queue, **options)
    clean: list[bool] = []

    def run() -> None:
        try:
            clean.append(worker.run())
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(PATIENCE)
    assert clean == [True]


def records(queue: Driver) -> list[JobRecord]:
    found = queue.introspection.find(JobFilter(), limit=10_000)
    return [one for one in found if isinstance(one, JobRecord)]


def count(queue: Driver, name: str, state: JobState) -> int:
    return sum(one.name == name and one.state is state for one in records(queue))


def wait_for(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def test_worker_takes_one_of_two_that_exclude_each_other_and_the_rest_of_the_batch(
    queue: Driver,
) -> None:
    """A batch in which not all may start is no error; what may not stays in the queue."""
    meter, leave = Meter(), threading.Event()

    def hold(ctx: JobContext, number: int) -> None:
        with meter.running(number):
            assert leave.wait(PATIENCE)

    exclusive = declare(hold, "exclusive", concurrency=1)
    other = declare(lambda ctx, number: None, "other")
    exclusive.enqueue_many([{"number": 1}, {"number": 2}])
    other.enqueue_many([{"number": number} for number in range(8)])

    with working(queue, threads=10):
        wait_for(lambda: count(queue, "other", JobState.COMPLETED) == 8, "the rest of the batch")
        wait_for(lambda: meter.now == 1, "one of the two")
        waiting = count(queue, "exclusive", JobState.READY)
        leave.set()
        wait_for(lambda: len(meter.ended) == 2, "the other of the two")

    assert waiting == 1
    assert meter.most == 1


def test_worker_finds_what_may_start_behind_a_full_limit(queue: Driver) -> None:
    """Many jobs of a full group at the front do not hide the few behind them."""
    leave = threading.Event()
    full = declare(lambda ctx, number: leave.wait(PATIENCE), "full", concurrency=1)
    free = declare(lambda ctx, number: None, "free", concurrency=1)
    full.enqueue_many([{"number": number} for number in range(500)])
    free.enqueue_many([{"number": number} for number in range(10)])

    with working(queue, threads=2):
        wait_for(lambda: count(queue, "free", JobState.COMPLETED) == 10, "what is behind")
        running = count(queue, "full", JobState.RUNNING)
        attempts = {one.attempt for one in records(queue) if one.state is JobState.READY}
        for one in records(queue):
            if one.name == "full" and one.state is JobState.READY:
                queue.cancel([one.id], tenant=None, by="test")
        leave.set()

    assert running == 1
    assert attempts == {0}


@override_settings(ULTIMATE_JOBS=DEAF)
def test_backlog_behind_a_limit_drains_at_the_limit_without_waiting_for_a_poll(
    queue: Driver,
) -> None:
    """Each end lets the next begin: as many run as may, until none is left."""
    meter = Meter()

    def body(ctx: JobContext, number: int) -> None:
        with meter.running(number):
            time.sleep(0.002)

    limited = declare(body, concurrency=5)
    limited.enqueue_many([{"number": number} for number in range(300)])

    with working(queue, threads=8):
        wait_for(lambda: len(meter.ended) == 300, f"all; {len(meter.ended)} ended")
        wait_for(lambda: count(queue, "body", JobState.COMPLETED) == 300, "all written")

    assert meter.most == 5
    assert {one.attempt for one in records(queue)} == {1}


@override_settings(ULTIMATE_JOBS=DEAF)
def test_job_under_two_limits_with_nobody_else_starts_without_waiting_for_a_poll(
    queue: Driver,
) -> None:
    """Limits that are not full cost no turn of their own."""
    ended = threading.Event()

    def body(ctx: JobContext, number: int) -> None:
        if number < 20:
            limited.enqueue(number=number + 1)
        else:
            ended.set()

    limits = [Limiter("site", global_=100), Limiter("tenant", per_tenant=10)]
    limited = declare(body, limits=limits, concurrency=50)

    with working(queue, threads=2):
        limited.enqueue(number=0)
        assert ended.wait(PATIENCE)


@pytest.mark.parametrize("failures", [1, 3])
def test_job_that_a_limit_kept_waiting_starts_as_soon_as_there_is_room(
    queue: Driver, failures: int
) -> None:
    """Having been refused often moves it neither back nor to dead."""
    meter, leave = Meter(), threading.Event()

    def body(ctx: JobContext, number: int) -> None:
        with meter.running(number):
            assert leave.wait(PATIENCE)

    limited = declare(body, concurrency=1)
    limited.enqueue_many([{"number": number} for number in range(20)])

    with working(queue, threads=4) as worker:
        wait_for(lambda: meter.now == 1, "a full limit")
        for _ in range(failures * 20):
            worker._wake.call()
            time.sleep(0.005)
        leave.set()
        wait_for(lambda: len(meter.ended) == 20, "all of them")

    assert meter.most == 1
    assert {one.attempt for one in records(queue)} == {1}
