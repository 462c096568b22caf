"""Async bodies share one loop, beside each other, and each ends in its own right."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, transaction

from tests.app.models import Document
from tests.e2e.processes import eventually
from tests.processes.fakes import a_claim
from ultimate_jobs import ClaimLost, JobCancelled, JobContext, job
from ultimate_jobs.processes.crew import Run
from ultimate_jobs.processes.deadlines import Deadlines, Watch
from ultimate_jobs.processes.event_loop import AsyncCrew
from ultimate_jobs.processes.executor import Executor
from ultimate_jobs.services.attempts import Ending
from ultimate_jobs.services.context import current_context
from ultimate_jobs.types import Completion, Nack


class Stage:
    """A crew with a real executor, and what became of each run."""

    def __init__(self, size: int = 10) -> None:
        self.ended: dict[Any, Ending] = {}
        self.stuck: list[Watch] = []
        self.bugs: list[str] = []
        self.idle = threading.Event()
        self.room = threading.Event()
        self.deadlines = Deadlines(
            stuck_after=0.3, on_stuck=self.stuck.append, on_bug=lambda: self.bugs.append("watch")
        )
        executor = Executor(stands=lambda _: True, max_result_bytes=1000, deadlines=self.deadlines)
        self.crew = AsyncCrew(
            size,
            lanes=2,
            perform=executor.perform_async,
            on_end=lambda run, ending: self.ended.update({run.claim.id: ending}),
            on_idle=self.idle.set,
            on_room=self.room.set,
            on_bug=lambda: self.bugs.append("loop"),
        )
        self.deadlines.start()
        self.crew.start()

    def put(self, name: str, **fields: Any) -> Run:
        claim = a_claim(name=name, **fields)
        run = Run(claim, JobContext(claim), received=time.monotonic())
        assert self.crew.take([run]) == []
        return run

    def ending(self, run: Run) -> Ending:
        eventually(lambda: run.claim.id in self.ended, what="the end of a run")
        return self.ended[run.claim.id]


@pytest.fixture
def stage(own_registry: None) -> Iterator[Stage]:
    built = Stage()
    yield built
    built.crew.close(timeout=5)
    built.deadlines.stop(timeout=5)
    assert built.bugs == []


def declare_gated(name: str = "gated") -> Callable[[], None]:
    """Declare a job whose bodies wait for each other's gate, and return what opens it."""
    gate = threading.Event()

    @job(key="x", name=name)
    async def gated(ctx: JobContext) -> str:
        while not gate.is_set():
            await asyncio.sleep(0.01)
        return threading.current_thread().name

    return gate.set


def test_bodies_run_beside_each_other_in_one_thread(stage: Stage) -> None:
    """Ten bodies that wait are all under way at once, and hold one thread in all."""
    open_gate = declare_gated()
    runs = [stage.put("gated") for _ in range(10)]
    eventually(lambda: len(stage.crew.running()) == 10, what="ten bodies at once")

    open_gate()

    assert {stage.ending(run).result for run in runs} == {'"jobs-loop"'}  # type: ignore[union-attr]
    assert stage.idle.wait(5)


def test_bodies_beyond_the_size_wait_in_line(own_registry: None) -> None:
    """What has no room is unstarted, and can be taken back."""
    stage = Stage(size=2)
    open_gate = declare_gated()
    runs = [stage.put("gated") for _ in range(5)]
    eventually(lambda: len(stage.crew.running()) == 2, what="two bodies")

    assert len(stage.crew.unstarted()) == 3
    assert stage.crew.room == 0
    taken = stage.crew.take_unstarted()
    open_gate()

    assert [claim.id for claim in taken] == [run.claim.id for run in runs[2:]]
    assert isinstance(stage.ending(runs[0]), Completion)
    assert isinstance(stage.ending(runs[1]), Completion)
    assert stage.room.wait(5)
    stage.crew.close(timeout=5)
    stage.deadlines.stop(timeout=5)
    assert set(stage.ended) == {run.claim.id for run in runs[:2]}


def test_take_leaves_sync_bodies_to_others(stage: Stage) -> None:
    """Also a name that nothing declares: the thread that finds out says so."""

    @job(key="x", name="sync")
    def sync(ctx: JobContext) -> None: ...

    claims = [a_claim(name="sync"), a_claim(name="unknown")]
    runs = [Run(claim, JobContext(claim), received=0.0) for claim in claims]

    assert stage.crew.take(runs) == runs


def test_each_body_has_its_own_context(stage: Stage) -> None:
    """``current_context()`` is that of the body that asks, across awaits."""

    @job(key="x", name="asks")
    async def asks(ctx: JobContext) -> bool:
        await asyncio.sleep(0.02)
        return current_context() is ctx

    runs = [stage.put("asks") for _ in range(5)]

    assert {stage.ending(run).result for run in runs} == {"true"}  # type: ignore[union-attr]


@pytest.mark.parametrize("how", ["raises", "except BaseException", "finally: return"])
@pytest.mark.parametrize("interruption", [JobCancelled, ClaimLost])
def test_interrupted_body_stops_at_its_next_await(
    stage: Stage, how: str, interruption: type[JobCancelled | ClaimLost]
) -> None:
    """A cancel hands back uncounted, a lost claim writes nothing, whatever the body swallows."""
    began = threading.Event()

    @job(key="x", name="sleeps")
    async def sleeps(ctx: JobContext) -> str:
        began.set()
        if how == "raises":
            await asyncio.sleep(600)
        elif how == "except BaseException":
            with suppress(BaseException):
                await asyncio.sleep(600)
        else:
            try:
                await asyncio.sleep(600)
            finally:
                return "completed all the same"  # noqa: B012
        return "completed all the same"

    run = stage.put("sleeps")
    assert began.wait(10)

    run.context.interrupt(interruption())

    expected = None
    if interruption is JobCancelled:
        expected = Nack(run.claim.id, run.claim.token, counts_as_attempt=False)
    assert stage.ending(run) == expected


@pytest.mark.parametrize("how", ["raises", "except BaseException", "finally: return"])
def test_timeout_of_async_body_is_a_failed_attempt(stage: Stage, how: str) -> None:
    """It is stopped at its await, and fails by X_ATTEMPT_TIMEOUT whatever it returns."""

    @job(key="x", name="slow", timeout=0.1)
    async def slow(ctx: JobContext) -> str:
        assert ctx.remaining() is not None
        if how == "raises":
            await asyncio.sleep(600)
        elif how == "except BaseException":
            with suppress(BaseException):
                await asyncio.sleep(600)
        else:
            try:
                await asyncio.sleep(600)
            finally:
                return "completed all the same"  # noqa: B012
        return "completed all the same"

    ending = stage.ending(stage.put("slow"))

    assert isinstance(ending, Nack)
    assert ending.counts_as_attempt
    assert ending.failure is not None
    assert ending.failure.error_class == "X_ATTEMPT_TIMEOUT"


def test_body_that_blocks_the_loop_past_its_timeout_is_fenced_out(stage: Stage) -> None:
    """Nothing reaches it, so its ending is no longer its own; other threads go on meanwhile."""

    @job(key="x", name="blocks", timeout=0.05)
    async def blocks(ctx: JobContext) -> str:
        time.sleep(1.5)
        return "late"

    run = stage.put("blocks")

    assert stage.ending(run) is None
    assert [watch.run for watch in stage.stuck] == [run]


def test_body_that_raises_cancelled_error_itself_fails(stage: Stage) -> None:
    """Nobody asked, so it is an error like another."""

    @job(key="x", name="raises")
    async def raises(ctx: JobContext) -> None:
        raise asyncio.CancelledError

    ending = stage.ending(stage.put("raises"))

    assert isinstance(ending, Nack)
    assert ending.failure is not None


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_body_that_would_end_the_process_ends_its_attempt(
    stage: Stage, error: BaseException
) -> None:
    """The loop goes on with the next body."""

    @job(key="x", name="exits")
    async def exits(ctx: JobContext) -> None:
        raise error

    assert isinstance(stage.ending(stage.put("exits")), Nack)
    assert isinstance(stage.ending(stage.put("exits")), Nack)


def test_task_of_a_body_that_would_end_the_process_ends_the_attempt(stage: Stage) -> None:
    """asyncio lets it out of the loop, which goes on all the same."""

    @job(key="x", name="gathers")
    async def gathers(ctx: JobContext) -> None:
        async def child() -> None:
            raise SystemExit(1)

        await asyncio.gather(child(), asyncio.sleep(0.01))

    assert isinstance(stage.ending(stage.put("gathers")), Nack)
    assert isinstance(stage.ending(stage.put("gathers")), Nack)


@pytest.mark.django_db(transaction=True)
def test_bodies_use_the_async_orm(stage: Stage) -> None:
    """Each commits by itself, on the few connections that all of them share."""

    @job(key="x", name="writes")
    async def writes(ctx: JobContext, number: int) -> int:
        await Document.objects.acreate(name=f"async {number}", version=1)
        return await asyncio.to_thread(lambda: 0) + await _backend()

    runs = [stage.put("writes", payload=f'{{"number": {number}}}') for number in range(20)]
    backends = {stage.ending(run).result for run in runs}  # type: ignore[union-attr]

    assert Document.objects.filter(name__startswith="async ").count() == 20
    assert 1 <= len(backends) <= 2


async def _backend() -> int:
    def ask() -> int:
        with connection.cursor() as cursor:
            cursor.execute("select pg_backend_pid()")
            return int(cursor.fetchone()[0])

    return await sync_to_async(ask)()


@pytest.mark.django_db(transaction=True)
def test_body_that_leaves_a_transaction_open_fails(stage: Stage) -> None:
    """What it wrote there is undone, and the next body finds a clean connection."""

    @job(key="x", name="opens")
    async def opens(ctx: JobContext) -> None:
        await sync_to_async(lambda: transaction.atomic().__enter__())()
        await Document.objects.acreate(name="never committed", version=1)

    @job(key="x", name="counts")
    async def counts(ctx: JobContext) -> int:
        return await Document.objects.acount()

    ending = stage.ending(stage.put("opens"))

    assert isinstance(ending, Nack)
    assert ending.failure is not None
    assert ending.failure.error_class == "X_TRANSACTION_LEFT_OPEN"
    assert {stage.ending(stage.put("counts")).result for _ in range(4)} == {"0"}  # type: ignore[union-attr]


def test_close_lets_what_is_there_end_first(own_registry: None) -> None:
    """No body is torn off, and the loop's thread ends."""
    stage = Stage()

    @job(key="x", name="naps")
    async def naps(ctx: JobContext) -> None:
        await asyncio.sleep(0.2)

    run = stage.put("naps")
    stage.crew.close(timeout=10)
    stage.deadlines.stop(timeout=5)

    assert isinstance(stage.ended[run.claim.id], Completion)
    assert "jobs-loop" not in {thread.name for thread in threading.enumerate()}
