"""The setting MIDDLEWARE: a site's own code around enqueues and attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from django.test import override_settings

from tests.processes.fakes import a_claim
from ultimate_jobs import ANY_TENANT, JobContext, get, job
from ultimate_jobs.drivers import use_driver
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.errors import SettingInvalid
from ultimate_jobs.processes.crew import Run
from ultimate_jobs.processes.executor import Executor
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
    return asyncio.run(executor.perform_async(run)) if is_async else executor.perform(run)


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
