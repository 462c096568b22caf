"""A deadline tells its own body, and nobody else."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.db import connection

from tests.processes.fakes import a_claim
from ultimate_jobs.interruptions import AttemptTimeout
from ultimate_jobs.processes import connections
from ultimate_jobs.processes.crew import Run
from ultimate_jobs.processes.deadlines import Deadlines, Watch
from ultimate_jobs.services.context import JobContext


@pytest.fixture
def stuck() -> list[Watch]:
    """The attempts that were fenced out."""
    return []


@pytest.fixture
def deadlines(stuck: list[Watch]) -> Iterator[Deadlines]:
    """A watch that fences out what runs on a little after its deadline."""
    watching = Deadlines(stuck_after=0.3, on_stuck=stuck.append, on_bug=lambda: None)
    watching.start()
    yield watching
    watching.stop(timeout=5)


def a_run() -> Run:
    claim = a_claim()
    return Run(claim, JobContext(claim), received=0.0)


def spin(seconds: float) -> None:
    """Keep the interpreter busy; an exception can be raised between any two instructions."""
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        sum(range(50))


def attempt(deadlines: Deadlines, seconds: float, body: Callable[[], Any]) -> tuple[Watch, Any]:
    """Run a body under a deadline and return what it returned or raised."""
    watch = deadlines.watch(a_run(), seconds)
    try:
        return watch, watch.call(body)
    except BaseException as error:
        return watch, error
    finally:
        deadlines.forget(watch)


def test_body_within_its_time_is_not_told(deadlines: Deadlines) -> None:
    """A deadline that lies ahead changes nothing."""
    watch, value = attempt(deadlines, 60, lambda: "done")

    assert value == "done"
    assert not watch.told
    assert not watch.run.context.interrupted
    assert watch.take_ending()


def test_body_past_its_time_is_stopped_where_it_is(deadlines: Deadlines) -> None:
    """A body that computes is stopped between two of its instructions."""
    began = time.monotonic()

    watch, error = attempt(deadlines, 0.1, lambda: spin(30))

    assert isinstance(error, AttemptTimeout)
    assert watch.told
    assert watch.run.context.interrupted
    assert watch.run.context.timed_out == 0.1
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("how", ["except BaseException", "finally: return"])
def test_body_that_swallows_its_timeout_is_remembered(deadlines: Deadlines, how: str) -> None:
    """It may return what it likes: its context knows that it was told."""

    def swallows() -> str:
        if how == "except BaseException":
            with suppress(BaseException):
                spin(30)
            return "completed all the same"
        try:
            spin(30)
        finally:
            return "completed all the same"  # noqa: B012

    watch, value = attempt(deadlines, 0.1, swallows)

    assert value == "completed all the same"
    assert watch.told
    assert watch.run.context.interrupted


@pytest.mark.django_db(transaction=True)
def test_query_past_its_time_is_cancelled(deadlines: Deadlines) -> None:
    """A body that waits for the database is freed, also on a connection that it opened itself."""
    connections.discard("default")
    began = time.monotonic()

    def queries() -> None:
        with connection.cursor() as cursor:
            cursor.execute("select pg_sleep(60)")

    watch, error = attempt(deadlines, 0.2, queries)
    connections.discard("default")

    assert watch.told
    assert isinstance(error, BaseException)
    assert time.monotonic() - began < 30


@pytest.mark.django_db(transaction=True)
def test_query_of_the_next_body_is_not_cancelled(deadlines: Deadlines) -> None:
    """A body that ends beside its deadline leaves a thread whose next query runs undisturbed."""
    for number in range(40):
        attempt(deadlines, 0.011 + number * 0.0002, lambda: spin(0.015))
        with connection.cursor() as cursor:
            cursor.execute("select pg_sleep(0.005), %s", [number])
            assert cursor.fetchone()[1] == number


def test_nothing_is_raised_into_a_thread_that_has_moved_on(deadlines: Deadlines) -> None:
    """Bodies that end at the very moment of their deadline: each is told or not, and that is all.

    Whatever is raised outside of ``attempt`` fails this test by itself.
    """
    told = untold = 0
    for number in range(400):
        # From well within to well beyond, so that a slow machine meets both sides too.
        length = 0.006 + (number % 40) * 0.0006
        watch, answer = attempt(deadlines, 0.011, lambda length=length: spin(length))
        spin(0.0005)
        assert isinstance(answer, AttemptTimeout) <= watch.told
        assert answer is None or isinstance(answer, AttemptTimeout)
        told += watch.told
        untold += not watch.told
    # Both sides of the race were met, or it proved nothing.
    assert told > 0
    assert untold > 0


def test_bodies_of_many_threads_are_told_each_their_own(deadlines: Deadlines) -> None:
    """An exception arrives in the thread whose deadline came, and in no other."""
    answers: dict[int, Any] = {}

    def serve(number: int) -> None:
        seconds = 0.1 if number % 2 else 60.0
        answers[number] = attempt(deadlines, seconds, lambda: spin(1.0))[1]

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert {n for n, answer in answers.items() if isinstance(answer, AttemptTimeout)} == {1, 3, 5}
    assert all(answers[number] is None for number in (0, 2, 4))


def test_body_that_does_not_stop_is_fenced_out(deadlines: Deadlines, stuck: list[Watch]) -> None:
    """What no exception reaches loses the right to its own ending, some time after its deadline."""
    gate = threading.Event()
    threading.Timer(2.0, gate.set).start()

    watch, _ = attempt(deadlines, 0.1, lambda: gate.wait(60))

    assert stuck == [watch]
    assert not watch.take_ending()


def test_body_that_stops_late_keeps_its_ending(deadlines: Deadlines, stuck: list[Watch]) -> None:
    """Cleaning up after being told is not being stuck."""

    def cleans_up() -> None:
        try:
            spin(30)
        finally:
            spin(0.05)

    watch, error = attempt(deadlines, 0.1, cleans_up)

    assert isinstance(error, AttemptTimeout)
    assert stuck == []
    assert watch.take_ending()


def test_async_body_past_its_time_interrupts_its_context(deadlines: Deadlines) -> None:
    """On a loop nothing is raised into the thread; the context is told, which cancels the task."""
    run = a_run()
    heard = threading.Event()
    run.context.on_interrupt(heard.set)

    async def body() -> str:
        while not heard.is_set():
            await asyncio.sleep(0.01)
        return "swallowed"

    async def serve() -> tuple[Watch, str]:
        watch = deadlines.watch_async(run, 0.1)
        return watch, await watch.wait_for(body())

    watch, value = asyncio.run(serve())
    deadlines.forget(watch)

    assert value == "swallowed"
    assert watch.told
    assert run.context.interrupted


def test_frame_of_a_watch_shows_where_the_body_is(deadlines: Deadlines) -> None:
    """A stuck body is found by the place at which it hangs."""
    seen: list[str] = []

    def look() -> None:
        frame = watch.frame()
        while frame is not None:
            seen.append(frame.f_code.co_name)
            frame = frame.f_back

    watch = deadlines.watch(a_run(), 60)
    watch.call(look)
    deadlines.forget(watch)

    assert "look" in seen
