"""The setting MIDDLEWARE: a site's own code around enqueues and attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from django.test import override_settings

from tests.processes.fakes import a_claim
from ultimate_jobs import ANY_TENANT, JobContext, get, job
from ultimate_jobs.drivers import use_driver
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.errors import (
    JobKeyInvalid,
    JobOptionInvalid,
    MiddlewareInvalid,
    SettingInvalid,
    UltimateJobsError,
)
from ultimate_jobs.processes.crew import Run
from ultimate_jobs.processes.executor import Executor
from ultimate_jobs.processes.worker import Worker
from ultimate_jobs.services.attempts import Ending
from ultimate_jobs.types import Completion, EnqueueAnswer, EnqueueRequest, Nack

HERE = "tests.hooks.test_middleware"
ACTS: list[str] = []


class Outer:
    """Writes down what passes it."""

    def enqueue(
        self, requests: Sequence[EnqueueRequest], proceed: Callable[..., list[EnqueueAnswer]]
    ) -> list[EnqueueAnswer]:
        ACTS.append(f"{type(self).__name__} asks for {len(requests)}")
        answers = proceed(requests)
        ACTS.append(f"{type(self).__name__} was answered {len(answers)}")
        return answers

    @contextmanager
    def attempt(self, ctx: JobContext) -> Iterator[None]:
        ACTS.append(f"{type(self).__name__} before {ctx.name}")
        try:
            yield
        finally:
            ACTS.append(f"{type(self).__name__} after")


class Inner(Outer):
    """The same, under another name."""


class Hurries:
    """Changes what is enqueued."""

    def enqueue(self, requests: Any, proceed: Any) -> Any:
        return proceed([replace(request, priority=7) for request in requests])


class Refuses:
    """Lets nothing pass."""

    def enqueue(self, requests: Any, proceed: Any) -> Any:
        raise PermissionError("not today")

    @contextmanager
    def attempt(self, ctx: JobContext) -> Iterator[None]:
        raise PermissionError("not today")
        yield


class RaisesAfter:
    """Fails once the body has returned."""

    @contextmanager
    def attempt(self, ctx: JobContext) -> Iterator[None]:
        yield
        raise ValueError("after the body")


class Neither:
    """No middleware at all."""


class WantsArguments(Outer):
    """Made as Django makes its own."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response


class RaisesAtOnce(Outer):
    """Cannot be made."""

    def __init__(self) -> None:
        raise LookupError("no tracer\nhere")


class NoContextManager:
    """Forgot to decorate its method."""

    def attempt(self, ctx: JobContext) -> Iterator[None]:
        yield


class ReturnsNothing:
    """Forgot to return the answers."""

    def enqueue(self, requests: Any, proceed: Any) -> Any:
        proceed(requests)


class AnswersTwice:
    """Returns more than it was asked for."""

    def enqueue(self, requests: Any, proceed: Any) -> Any:
        return proceed(requests) * 2


class NeverProceeds:
    """Lets nothing pass, and says nothing."""

    def enqueue(self, requests: Any, proceed: Any) -> Any:
        return []


class HandsOnText:
    """Calls proceed with what is no request."""

    def enqueue(self, requests: Any, proceed: Any) -> Any:
        return proceed("requests")


class Replaces:
    """Replaces what a test tells it to."""

    changes: ClassVar[dict[str, Any]] = {}

    def enqueue(self, requests: Any, proceed: Any) -> Any:
        return proceed([replace(request, **self.changes) for request in requests])


@pytest.fixture(autouse=True)
def no_acts() -> None:
    ACTS.clear()


@pytest.fixture
def memory(own_registry: None) -> Iterator[MemoryDriver]:
    driver = MemoryDriver()
    use_driver(driver)
    yield driver
    use_driver(None)
    driver.close()


def middleware(*names: str) -> Any:
    return override_settings(ULTIMATE_JOBS={"MIDDLEWARE": [f"{HERE}.{name}" for name in names]})


def declared(is_async: bool = False) -> Any:
    if is_async:

        @job(key="x", name="body")
        async def later(ctx: JobContext) -> str:
            ACTS.append("body")
            return "done"

        return later

    @job(key="x", name="body")
    def body(ctx: JobContext) -> str:
        ACTS.append("body")
        return "done"

    return body


def perform(*, is_async: bool) -> Ending:
    declared(is_async)
    executor = Executor(stands=lambda _: True, max_result_bytes=1000)
    claim = a_claim(name="body")
    run = Run(claim, JobContext(claim), received=0.0)
    if is_async:
        return asyncio.run(executor.perform_async(run))
    # A thread of its own, as in a worker: this one may hold the connection of an earlier test.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(executor.perform, run).result()


EITHER = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def test_enqueue_passes_every_middleware_from_the_first_inwards(memory: MemoryDriver) -> None:
    """The first of the setting is outermost, once for a whole list."""
    with middleware("Outer", "Inner"):
        declared().enqueue()

    assert ACTS == [
        "Outer asks for 1",
        "Inner asks for 1",
        "Inner was answered 1",
        "Outer was answered 1",
    ]


def test_enqueue_stores_what_a_middleware_made_of_it(memory: MemoryDriver) -> None:
    """A request may be replaced before it is stored."""
    with middleware("Hurries"):
        handle = declared().enqueue()

    assert get(handle.id, tenant=ANY_TENANT).priority == 7


def test_enqueue_passes_on_what_a_middleware_raises(memory: MemoryDriver) -> None:
    """The caller gets the very error, and nothing is stored."""
    with middleware("Refuses"), pytest.raises(PermissionError, match="not today"):
        declared().enqueue()

    assert memory.introspection.stats() == []


@EITHER
def test_attempt_runs_inside_every_middleware(own_registry: None, is_async: bool) -> None:
    """Also an async body, which the same context managers go around."""
    with middleware("Outer", "Hurries", "Inner"):
        ending = perform(is_async=is_async)

    assert isinstance(ending, Completion)
    assert ACTS == [
        "Outer before body",
        "Inner before body",
        "body",
        "Inner after",
        "Outer after",
    ]


@EITHER
@pytest.mark.parametrize(
    ("name", "began"), [("Refuses", False), ("RaisesAfter", True)], ids=["before", "after"]
)
def test_error_of_a_middleware_is_the_attempt_s_own(
    own_registry: None, is_async: bool, name: str, began: bool
) -> None:
    """It fails the attempt, and those outside of it are left in order."""
    with middleware("Outer", name):
        ending = perform(is_async=is_async)

    assert isinstance(ending, Nack)
    assert ending.failure is not None
    assert ending.failure.error_class in ("PermissionError", "ValueError")
    assert ("body" in ACTS) == began
    assert ACTS[-1] == "Outer after"


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("nowhere.at.all", "cannot be imported"),
        ("nodots", "cannot be imported"),
        (f"{HERE}.HERE", "is no class"),
        (f"{HERE}.Neither", "has neither enqueue nor attempt"),
        (f"{HERE}.WantsArguments", "is called without arguments: TypeError: "),
        (f"{HERE}.RaisesAtOnce", "is called without arguments: LookupError: no tracer"),
    ],
)
def test_setting_that_names_no_middleware_is_refused(
    memory: MemoryDriver, path: str, problem: str
) -> None:
    """By its place, before anything is stored."""
    handle = declared()

    with (
        override_settings(ULTIMATE_JOBS={"MIDDLEWARE": [path]}),
        pytest.raises(SettingInvalid) as refusal,
    ):
        handle.enqueue()

    assert f'"{path}"' in refusal.value.cause
    assert problem in refusal.value.cause
    assert "\n" not in refusal.value.cause
    assert memory.introspection.stats() == []


def test_fix_of_a_wrong_middleware_keeps_the_right_ones(memory: MemoryDriver) -> None:
    """It names nothing that does not exist."""
    with middleware("Outer", "Neither"), pytest.raises(SettingInvalid) as refusal:
        declared().enqueue()

    assert refusal.value.fix == (
        f'set ULTIMATE_JOBS = {{"MIDDLEWARE": ["{HERE}.Outer"]}} in the settings'
    )


def test_worker_does_not_start_with_a_wrong_middleware(memory: MemoryDriver) -> None:
    """No job is claimed, so none is charged with it."""
    handle = declared().enqueue()

    with middleware("WantsArguments"), pytest.raises(SettingInvalid):
        Worker(memory, burst=True, threads=1).run()

    assert get(handle.id, tenant=ANY_TENANT).attempt == 0
    assert memory.leases.workers() == []


@EITHER
def test_attempt_without_context_manager_is_told_by_name(
    own_registry: None, is_async: bool
) -> None:
    """The body does not run without what was to go around it."""
    with middleware("NoContextManager"):
        ending = perform(is_async=is_async)

    assert isinstance(ending, Nack)
    assert ending.failure is not None
    assert ending.failure.error_class == "X_MIDDLEWARE_INVALID"
    assert f'"{HERE}.NoContextManager" returned generator' in ending.failure.message
    assert "body" not in ACTS


@pytest.mark.parametrize(
    ("name", "problem", "stored"),
    [
        ("ReturnsNothing", "returned NoneType from enqueue() and no list of 1 answers", True),
        ("AnswersTwice", "returned 2 answers from enqueue() and not 1", True),
        ("NeverProceeds", "returned 0 answers from enqueue() and not 1", False),
        ("HandsOnText", "called proceed() with str and no list of EnqueueRequest", False),
    ],
)
def test_enqueue_that_does_not_answer_is_told_by_name(
    memory: MemoryDriver, name: str, problem: str, stored: bool
) -> None:
    """And whether the jobs were written all the same."""
    with middleware(name), pytest.raises(MiddlewareInvalid) as refusal:
        declared().enqueue()

    assert f'"{HERE}.{name}" {problem}' in refusal.value.cause
    assert ("the jobs were written" in refusal.value.cause) == stored
    assert bool(memory.introspection.stats()) == stored


@pytest.mark.parametrize(
    ("changes", "kind", "problem"),
    [
        ({"queue": "a,b"}, JobKeyInvalid, "the queue contains a comma"),
        ({"queue": None}, JobKeyInvalid, "the queue is NoneType"),
        ({"key": "k" * 1025}, JobKeyInvalid, "the key is 1025 bytes"),
        ({"name": ""}, JobKeyInvalid, "the name is empty"),
        ({"tenant": "t" * 256}, JobKeyInvalid, "the tenant is 256 bytes"),
        ({"serial_key": 7}, JobKeyInvalid, "the serial is int"),
        ({"priority": 101}, JobOptionInvalid, "option priority"),
        ({"priority": None}, JobOptionInvalid, "option priority"),
        ({"run_after": datetime(2030, 1, 1)}, JobOptionInvalid, "option run_after"),
        ({"run_after": timedelta(1)}, JobOptionInvalid, "is timedelta, neither"),
        ({"delay_ms": -1}, JobOptionInvalid, "option delay_ms"),
        (
            {"delay_ms": 5, "run_after": datetime(2030, 1, 1, tzinfo=UTC)},
            JobOptionInvalid,
            "stands beside run_after",
        ),
        ({"max_attempts": 0}, JobOptionInvalid, "option max_attempts"),
        ({"traceparent": "trace"}, JobOptionInvalid, "option traceparent"),
        ({"payload": "{"}, JobOptionInvalid, "option payload"),
        ({"id": uuid4()}, JobOptionInvalid, "option id"),
    ],
    ids=str,
)
def test_enqueue_refuses_what_a_middleware_replaced_wrongly(
    memory: MemoryDriver,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    kind: type[UltimateJobsError],
    problem: str,
) -> None:
    """As ``using()`` would, before anything is written."""
    monkeypatch.setattr(Replaces, "changes", changes)

    with middleware("Outer", "Replaces"), pytest.raises(kind) as refusal:
        declared().enqueue()

    assert problem in refusal.value.cause
    assert memory.introspection.stats() == []
