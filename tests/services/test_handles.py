"""Handles: the answer of a run, waited for within a bound and never in vain."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import pickle
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import transaction

from tests.factories import JobFactory
from ultimate_jobs import Job, RunHandle, job
from ultimate_jobs.drivers import current_driver, use_driver
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.errors import (
    JobFailed,
    JobNotFound,
    JobOptionInvalid,
    ResultInTransaction,
    ResultTimeout,
)
from ultimate_jobs.models import Job as Row
from ultimate_jobs.services import handles
from ultimate_jobs.states import JobState
from ultimate_jobs.types import ClaimRequest, Completion

BOTH = ["default", "other"]

pytestmark = pytest.mark.usefixtures("own_registry")
committing = pytest.mark.django_db(transaction=True)
committing_both = pytest.mark.django_db(transaction=True, databases=BOTH)

Ask = Callable[..., Any]


def ask_sync(handle: RunHandle, **options: Any) -> Any:
    return handle.result(**options)


def ask_async(handle: RunHandle, **options: Any) -> Any:
    return async_to_sync(handle.aresult)(**options)


@pytest.fixture(params=[ask_sync, ask_async], ids=["result", "aresult"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Both twins."""
    asked: Ask = request.param
    return asked


@pytest.fixture
def send() -> Job[Any, Any]:
    @job(key="invoice:{n}", name="tests.send")
    def send(ctx: Any, n: int) -> None: ...

    return send


@pytest.fixture
def memory() -> Iterator[MemoryDriver]:
    """Jobs of this process only, where no transaction plays a part."""
    driver = MemoryDriver()
    use_driver(driver)
    yield driver
    use_driver(None)
    driver.close()


class Waits(list[float]):
    """The pauses that were asked for; no time passes but by them."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.act: Callable[[], object] | None = None

    def pass_by(self, seconds: float) -> None:
        self.append(seconds)
        self.now += seconds
        if self.act is not None:
            self.act()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    """No test waits: a pause moves the clock and may act."""
    waits = Waits()

    async def asleep(seconds: float) -> None:
        await sync_to_async(waits.pass_by)(seconds)

    class Asyncio:
        sleep = staticmethod(asleep)

    class Time:
        sleep = staticmethod(waits.pass_by)
        monotonic = staticmethod(lambda: waits.now)

    monkeypatch.setattr(handles, "asyncio", Asyncio)
    monkeypatch.setattr(handles, "time", Time)
    return waits


def handle_of(row: Row, *, deduped: bool | None = False) -> RunHandle:
    return RunHandle(row.id, row.run_id, deduped, JobState.READY, True)


def complete(result: str | None = None) -> None:
    driver = current_driver()
    [claimed] = driver.claim(ClaimRequest(uuid4(), ("tests.send",), 1, queues=("default",)))
    driver.ack(claimed.worker, [Completion(claimed.id, claimed.token, result)])


# --- runs that have ended --------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(
    "value", ["sent", 0, False, "", [], {}, 1.5, {"rows": [1, None]}, 10**30, "💶"], ids=repr
)
def test_result_of_a_completed_run_is_what_its_body_returned(
    send: Job[Any, Any], ask: Ask, value: Any
) -> None:
    """A falsy answer is an answer."""
    handle = send.enqueue(n=1)
    complete(json.dumps(value))

    assert ask(handle, timeout=0) == value


@pytest.mark.django_db
def test_result_of_a_run_that_returned_nothing_is_none(send: Job[Any, Any], ask: Ask) -> None:
    """``None`` comes back as ``None`` and is not waited for."""
    handle = send.enqueue(n=1)
    complete(None)

    assert ask(handle, timeout=0) is None


@pytest.mark.django_db
def test_result_of_a_deduped_handle_is_the_holders(send: Job[Any, Any], ask: Ask) -> None:
    """The second caller gets the answer of the run that serves both."""
    send.enqueue(n=1)
    second = send.enqueue(n=1)
    complete('"once"')

    assert ask(second, timeout=0) == "once"


@pytest.mark.django_db
@pytest.mark.parametrize("state", [JobState.DEAD, JobState.CANCELLED])
def test_result_of_a_run_that_failed_raises_and_says_how(ask: Ask, state: JobState) -> None:
    """There is no result, and the error says in which state it ended, but no error text."""
    row = JobFactory(state=state.value, last_error="ValueError: hunter2-zq")

    with pytest.raises(JobFailed) as caught:
        ask(handle_of(row), timeout=0)

    assert state.value in caught.value.cause
    assert str(row.id) in caught.value.fix
    assert "hunter2-zq" not in str(caught.value)


@pytest.mark.django_db
def test_result_of_an_unknown_job_raises(ask: Ask) -> None:
    """What retention has removed, or what never was, is not waited for."""
    handle = RunHandle(uuid4(), uuid4(), False, JobState.READY, True)

    with pytest.raises(JobNotFound):
        ask(handle, timeout=30)


# --- waiting ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("timeout", [0, 0.0, timedelta(0), -5, timedelta(seconds=-5)])
def test_result_with_no_time_looks_once(
    send: Job[Any, Any], ask: Ask, waits: Waits, timeout: Any
) -> None:
    """A timeout of 0 is honoured, and is not "no timeout"."""
    handle = send.enqueue(n=1)

    with pytest.raises(ResultTimeout) as caught:
        ask(handle, timeout=timeout)

    assert waits == []
    assert "still ready after 0 seconds" in caught.value.cause


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("timeout", [2, 2.0, timedelta(seconds=2)])
def test_result_of_a_run_that_does_not_end_raises_after_the_timeout(
    send: Job[Any, Any], ask: Ask, waits: Waits, timeout: Any
) -> None:
    """The wait is as long as it was asked to be, in seconds or as a timedelta."""
    handle = send.enqueue(n=1)

    with pytest.raises(ResultTimeout) as caught:
        ask(handle, timeout=timeout)

    assert sum(waits) == pytest.approx(2.0)
    assert "after 2 seconds" in caught.value.cause


@pytest.mark.usefixtures("memory")
def test_result_of_a_run_that_ends_meanwhile_is_returned(
    send: Job[Any, Any], ask: Ask, waits: Waits
) -> None:
    """The end is noticed at the next look."""
    handle = send.enqueue(n=1)

    def end_at_the_third_wait() -> None:
        if len(waits) == 3:
            complete('"done"')

    waits.act = end_at_the_third_wait

    assert ask(handle, timeout=30) == "done"
    assert len(waits) == 3
    assert max(waits) <= 0.05


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("timeout", [None, "5", True, float("nan"), [5], b"5"])
def test_result_with_a_timeout_that_is_none_is_refused(
    send: Job[Any, Any], ask: Ask, waits: Waits, timeout: Any
) -> None:
    """NaN would wait for ever, and ``None`` would leave it open; neither is guessed."""
    handle = send.enqueue(n=1)

    with pytest.raises(JobOptionInvalid) as caught:
        ask(handle, timeout=timeout)

    assert "timeout" in caught.value.cause
    assert waits == []


@pytest.mark.usefixtures("memory")
def test_aresult_leaves_the_loop_to_others_while_it_waits(send: Job[Any, Any]) -> None:
    """A hundred waiting coroutines need no hundred threads, and block nothing."""
    handle = send.enqueue(n=1)
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0)

    async def both() -> None:
        ticking = asyncio.ensure_future(tick())
        with pytest.raises(ResultTimeout):
            await handle.aresult(timeout=0.05)
        ticking.cancel()

    async_to_sync(both)()

    assert len(ticks) > 10


# --- inside a transaction --------------------------------------------------------------------


@committing
def test_result_inside_the_transaction_that_enqueued_is_refused(
    send: Job[Any, Any], ask: Ask, waits: Waits
) -> None:
    """No worker sees the job before the commit, so waiting for it would wait for ever."""
    with transaction.atomic():
        handle = send.enqueue(n=1)
        with pytest.raises(ResultInTransaction) as caught:
            ask(handle, timeout=30)

    assert waits == []
    assert '"default"' in caught.value.cause
    complete('"done"')
    assert ask(handle, timeout=0) == "done"


@committing
def test_result_after_the_rollback_of_its_transaction_is_not_found(
    send: Job[Any, Any], ask: Ask
) -> None:
    """A job that was never committed is none."""
    with transaction.atomic():
        handle = send.enqueue(n=1)
        transaction.set_rollback(True)

    with pytest.raises(JobNotFound):
        ask(handle, timeout=30)


@committing_both
def test_result_inside_another_databases_transaction_is_waited_for(
    send: Job[Any, Any], ask: Ask, waits: Waits
) -> None:
    """Only the queue's own transaction hides the end of a job that stands in the queue."""
    handle = send.enqueue(n=1)

    with transaction.atomic(using="other"), pytest.raises(ResultTimeout):
        ask(handle, timeout=1)


# --- staged runs -----------------------------------------------------------------------------


@committing_both
def test_result_of_a_staged_run_waits_until_it_reaches_the_queue(
    send: Job[Any, Any], ask: Ask, waits: Waits
) -> None:
    """A job that no relay has published yet is not "not found"."""
    with transaction.atomic(using="other"):
        handle = send.enqueue(n=1)

    def publish_and_end() -> None:
        if len(waits) == 2:
            JobFactory(
                id=handle.id, run_id=handle.run_id, state=JobState.COMPLETED.value, result="done"
            )

    waits.act = publish_and_end

    assert ask(handle, timeout=30) == "done"
    assert len(waits) == 2


@committing_both
def test_result_of_a_staged_run_that_is_not_published_says_so(
    send: Job[Any, Any], ask: Ask, waits: Waits
) -> None:
    """The state in the message is where the run stands."""
    with transaction.atomic(using="other"):
        handle = send.enqueue(n=1)

    with pytest.raises(ResultTimeout) as caught:
        ask(handle, timeout=1)

    assert "still staged" in caught.value.cause


@committing_both
def test_result_of_a_staged_run_inside_its_transaction_is_refused(
    send: Job[Any, Any], ask: Ask, waits: Waits
) -> None:
    """The transaction that holds the outbox row hides it from the relay."""
    with transaction.atomic(using="other"):
        handle = send.enqueue(n=1)
        with pytest.raises(ResultInTransaction) as caught:
            ask(handle, timeout=30)

    assert '"other"' in caught.value.cause


@committing
def test_result_in_memory_inside_the_transaction_that_enqueued_is_refused(
    send: Job[Any, Any], ask: Ask, waits: Waits, memory: MemoryDriver
) -> None:
    """What is applied on commit cannot end before it."""
    with transaction.atomic():
        handle = send.enqueue(n=1)
        with pytest.raises(ResultInTransaction):
            ask(handle, timeout=30)

    complete('"done"')
    assert ask(handle, timeout=0) == "done"


# --- the handle itself -----------------------------------------------------------------------


def test_handle_is_frozen_and_can_be_a_key_and_be_pickled() -> None:
    """A handle may be kept, compared, and passed to another process."""
    handle = RunHandle(uuid4(), uuid4(), None, JobState.READY, None)

    with pytest.raises(dataclasses.FrozenInstanceError):
        handle.state = JobState.DEAD  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(handle)) == handle
    assert {handle: 1}[handle] == 1
