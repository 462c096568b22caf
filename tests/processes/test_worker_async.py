"""Async bodies and sync ones in one worker: neither kind waits for the other's room."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.test import override_settings

from ultimate_jobs import JobContext, job
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.processes.worker import Worker

PATIENCE = 20


@contextmanager
def working(memory: MemoryDriver, threads: int) -> Iterator[None]:
    worker = Worker(memory, threads=threads)
    runner = threading.Thread(target=worker.run)
    runner.start()
    try:
        yield
    finally:
        worker.stop()
        runner.join(PATIENCE)
        assert not runner.is_alive()


@override_settings(ULTIMATE_JOBS={"ASYNC_CONCURRENCY": 1, "POLL": 0.05})
def test_sync_job_runs_while_async_ones_wait_for_the_loop(memory: MemoryDriver) -> None:
    """A loop that is full holds up its own kind only."""
    began, leave, done = threading.Event(), threading.Event(), threading.Event()

    @job(key="{number}", name="waits")
    async def waits(ctx: JobContext, number: int) -> None:
        began.set()
        while not leave.is_set():
            await asyncio.sleep(0.01)

    @job(key="{number}", name="quick")
    def quick(ctx: JobContext, number: int) -> None:
        done.set()

    waits.enqueue_many([{"number": number} for number in range(5)])
    with working(memory, threads=2):
        assert began.wait(PATIENCE)
        quick.enqueue(number=1)
        ran_beside = done.wait(PATIENCE)
        leave.set()

    assert ran_beside


@override_settings(ULTIMATE_JOBS={"POLL": 0.05})
def test_async_job_runs_while_every_thread_is_busy(memory: MemoryDriver) -> None:
    """It needs no thread, so it waits for none."""
    began, leave, done = threading.Event(), threading.Event(), threading.Event()

    @job(key="{number}", name="busy")
    def busy(ctx: JobContext, number: int) -> None:
        began.set()
        assert leave.wait(PATIENCE)

    @job(key="{number}", name="beside")
    async def beside(ctx: JobContext, number: int) -> None:
        done.set()

    busy.enqueue_many([{"number": number} for number in range(5)])
    with working(memory, threads=1):
        assert began.wait(PATIENCE)
        beside.enqueue(number=1)
        ran_beside = done.wait(PATIENCE)
        leave.set()

    assert ran_beside


@override_settings(ULTIMATE_JOBS={"ASYNC_CONCURRENCY": 3, "POLL": 0.05})
def test_no_more_async_jobs_are_claimed_than_begin_at_once(memory: MemoryDriver) -> None:
    """What the loop has no room for stays in the queue, for another worker."""
    began, leave = threading.Semaphore(0), threading.Event()

    @job(key="{number}", name="held")
    async def held(ctx: JobContext, number: int) -> None:
        began.release()
        while not leave.is_set():
            await asyncio.sleep(0.01)

    held.enqueue_many([{"number": number} for number in range(10)])
    with working(memory, threads=2):
        for _ in range(3):
            assert began.acquire(timeout=PATIENCE)
        [stats] = memory.introspection.stats()
        leave.set()

    assert (stats.running, stats.depth) == (3, 7)
