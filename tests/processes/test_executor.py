"""One claim becomes one ending, whatever the body does."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from typing import Any

import pytest
from django.db import connection, connections, transaction

from tests.processes.fakes import a_claim
from ultimate_jobs import ClaimLost, JobCancelled, JobContext, Retry, job
from ultimate_jobs.processes.crew import Run
from ultimate_jobs.processes.deadlines import Deadlines
from ultimate_jobs.processes.executor import Executor
from ultimate_jobs.services.context import current_context
from ultimate_jobs.types import Completion, Nack


@pytest.fixture(autouse=True)
def no_connection() -> None:
    """What an earlier test left open is not for these bodies to tidy."""
    for one in connections.all(initialized_only=True):
        if not one.in_atomic_block:
            one.close()


@pytest.fixture
def executor(own_registry: None) -> Executor:
    """An executor whose lease stands, and no declared job."""
    return Executor(stands=lambda _: True, max_result_bytes=1000)


def a_run(name: str, payload: str = "{}", **fields: Any) -> Run:
    claim = a_claim(name=name, payload=payload, **fields)
    return Run(claim, JobContext(claim), received=0.0)


def test_perform_calls_body_with_decoded_inputs(executor: Executor) -> None:
    """Stored JSON arrives as the annotated types, and the value goes back as JSON."""

    @job(key="x", name="adds")
    def adds(ctx: JobContext, numbers: list[int], by: int = 1) -> int:
        assert current_context() is ctx
        return sum(numbers) + by

    run = a_run("adds", '{"numbers": [1, 2]}')

    assert executor.perform(run) == Completion(run.claim.id, 1, "4")
    assert current_context() is None


def test_perform_under_alias_finds_the_job(executor: Executor) -> None:
    """A job that was renamed still runs what waits under its earlier name."""

    @job(key="x", name="new", aliases=["old"])
    def new(ctx: JobContext) -> str:
        return ctx.name

    run = a_run("old")

    assert executor.perform(run) == Completion(run.claim.id, 1, '"old"')


def test_perform_of_async_body_runs_it(executor: Executor) -> None:
    """An ``async def`` is awaited to its end."""

    @job(key="x", name="waits")
    async def waits(ctx: JobContext) -> str:
        await asyncio.sleep(0)
        context = current_context()
        assert context is not None
        return str(context.attempt)

    run = a_run("waits")

    assert executor.perform(run) == Completion(run.claim.id, 1, '"1"')


@pytest.mark.parametrize("name", ["unknown", "declared"])
def test_perform_before_the_body_can_fail_too(executor: Executor, name: str) -> None:
    """An unknown name and an input that does not fit are failed attempts like any other."""

    @job(key="x", name="declared")
    def declared(ctx: JobContext, number: int) -> None:
        raise AssertionError("never called")

    ending = executor.perform(a_run(name))

    assert isinstance(ending, Nack)
    assert ending.failure is not None
    assert ending.failure.error_class in ("X_JOB_UNKNOWN", "X_JOB_INPUT_INVALID")
    assert ending.delay_ms > 0


def test_perform_uses_the_job_s_own_retry(executor: Executor) -> None:
    """The declared backoff decides the wait."""

    @job(key="x", name="fails", retry=Retry(attempts=5, backoff="linear", delay=10, jitter=0))
    def fails(ctx: JobContext) -> None:
        raise ValueError("boom")

    ending = executor.perform(a_run("fails", attempt=2))

    assert isinstance(ending, Nack)
    assert ending.delay_ms == 20_000


def test_perform_after_the_lease_ended_does_not_begin(own_registry: None) -> None:
    """A process that was stopped with a claim in hand begins nothing late, and writes nothing."""
    began = []

    @job(key="x", name="late")
    def late(ctx: JobContext) -> None:
        began.append(ctx)

    executor = Executor(stands=lambda _: False, max_result_bytes=1000)

    assert executor.perform(a_run("late")) is None
    assert began == []


@pytest.mark.parametrize(
    ("interruption", "expected"), [(JobCancelled(), Nack), (ClaimLost(), type(None))]
)
def test_perform_of_interrupted_run_does_not_begin(
    executor: Executor, interruption: Any, expected: type
) -> None:
    """A cancel between the claim and the start stops the start."""

    @job(key="x", name="never")
    def never(ctx: JobContext) -> None:
        raise AssertionError("never called")

    run = a_run("never")
    run.context.interrupt(interruption)

    ending = executor.perform(run)

    assert isinstance(ending, expected)
    assert ending is None or ending == Nack(run.claim.id, 1, counts_as_attempt=False)


@pytest.mark.django_db(transaction=True)
def test_perform_of_body_that_leaves_a_transaction_open_fails(executor: Executor) -> None:
    """What it wrote there is undone, so it is not called complete."""

    @job(key="x", name="opens")
    def opens(ctx: JobContext) -> None:
        transaction.atomic().__enter__()

    ending = executor.perform(a_run("opens"))

    assert isinstance(ending, Nack)
    assert ending.failure is not None
    assert ending.failure.error_class == "X_TRANSACTION_LEFT_OPEN"
    assert not connection.in_atomic_block


@pytest.mark.django_db
def test_perform_leaves_the_caller_s_transaction_alone(executor: Executor) -> None:
    """Run inside a test's transaction, a body neither ends nor closes it."""

    @job(key="x", name="reads")
    def reads(ctx: JobContext) -> int:
        with connection.cursor() as cursor:
            cursor.execute("select 1")
            return int(cursor.fetchone()[0])

    ending = executor.perform(a_run("reads"), before=frozenset({"default"}))

    assert isinstance(ending, Completion)
    assert connection.in_atomic_block


def interrupting(how: str, kind: str) -> Any:
    """Declare a body that is interrupted in one way and swallows it in another."""

    @job(key="x", name="swallows", timeout=0.2 if kind == "timeout" else None)
    def swallows(ctx: JobContext) -> str:
        def wait() -> None:
            if kind == "cancel":
                ctx.interrupt(JobCancelled())
            elif kind == "lost lease":
                ctx.interrupt(ClaimLost())
            while True:
                time.sleep(0.001)
                ctx.check()

        if how == "except BaseException":
            with suppress(BaseException):
                wait()
            return "completed all the same"
        try:
            wait()
        finally:
            return "completed all the same"  # noqa: B012

    return swallows


@pytest.mark.parametrize("how", ["except BaseException", "finally: return"])
@pytest.mark.parametrize("kind", ["cancel", "timeout", "lost lease"])
def test_body_that_swallows_its_interruption_never_completes(
    own_registry: None, kind: str, how: str
) -> None:
    """What told it to stop decides how the attempt ends, whatever it returns."""
    deadlines = Deadlines(stuck_after=60, on_stuck=lambda _: None, on_bug=lambda: None)
    deadlines.start()
    executor = Executor(stands=lambda _: True, max_result_bytes=1000, deadlines=deadlines)
    interrupting(how, kind)
    run = a_run("swallows")

    ending = executor.perform(run)
    deadlines.stop(timeout=5)

    if kind == "cancel":
        assert ending == Nack(run.claim.id, 1, counts_as_attempt=False)
    elif kind == "lost lease":
        assert ending is None
    else:
        assert isinstance(ending, Nack)
        assert ending.failure is not None
        assert ending.failure.error_class == "X_ATTEMPT_TIMEOUT"


def test_perform_of_a_body_that_was_fenced_out_writes_nothing(own_registry: None) -> None:
    """Its end was written for it; a second one is void."""
    stuck: list[Any] = []
    gate = threading.Event()

    @job(key="x", name="hangs", timeout=0.05)
    def hangs(ctx: JobContext) -> str:
        gate.wait(60)
        return "late"

    def on_stuck(watch: Any) -> None:
        stuck.append(watch)
        gate.set()

    deadlines = Deadlines(stuck_after=0.1, on_stuck=on_stuck, on_bug=lambda: None)
    deadlines.start()
    executor = Executor(stands=lambda _: True, max_result_bytes=1000, deadlines=deadlines)

    ending = executor.perform(a_run("hangs"))
    deadlines.stop(timeout=5)

    assert ending is None
    assert len(stuck) == 1
