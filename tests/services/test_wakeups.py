"""Who makes work tells the workers: of what is new and due, once it is stored."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

from ultimate_jobs import ANY_TENANT, Job, job, retry
from ultimate_jobs.drivers import use_driver
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.services import operators
from ultimate_jobs.types import ClaimRequest, Completion, Nack


@pytest.fixture
def memory(own_registry: None) -> Iterator[MemoryDriver]:
    driver = MemoryDriver()
    use_driver(driver)
    yield driver
    use_driver(None)
    driver.close()


@pytest.fixture
def told(memory: MemoryDriver, monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """What was announced, call by call."""
    calls: list[set[str]] = []

    def announce(queues: Collection[str]) -> None:
        calls.append(set(queues))

    monkeypatch.setattr(memory.wakeups, "announce", announce)
    return calls


@pytest.fixture
def send(memory: MemoryDriver) -> Job[Any, Any]:
    @job(key="{n}", name="tests.send", queue="mail")
    def send(ctx: Any, n: int) -> None: ...

    return send


def test_new_work_is_told_by_its_queue(told: list[set[str]], send: Job[Any, Any]) -> None:
    """The queue of the call, where that names one."""
    send.enqueue(n=1)
    send.using(queue="other").enqueue(n=2)

    assert told == [{"mail"}, {"other"}]


def test_many_are_told_at_once(told: list[set[str]], send: Job[Any, Any]) -> None:
    """One word for a list."""
    send.enqueue_many([{"n": number} for number in range(100)])

    assert told == [{"mail"}]


def test_future_work_is_not_told(told: list[set[str]], send: Job[Any, Any]) -> None:
    """Nobody could claim it."""
    send.using(run_after=timedelta(hours=1)).enqueue(n=1)

    assert told == []


def test_held_key_is_not_told(told: list[set[str]], send: Job[Any, Any]) -> None:
    """Nothing was added; a list that adds something tells that."""
    send.enqueue(n=1)
    told.clear()

    send.enqueue(n=1)
    alone = list(told)
    send.enqueue_many([{"n": 1}, {"n": 2}])

    assert alone == []
    assert told == [{"mail"}]


def finished(memory: MemoryDriver, send: Job[Any, Any], worker: Any, *, dead: bool) -> Any:
    handle = send.enqueue(n=1)
    [claim] = memory.claim(ClaimRequest(worker, names=("tests.send",), limit=1))
    if dead:
        memory.nack(worker, [Nack(claim.id, claim.token, dead_letter=True)])
    else:
        memory.ack(worker, [Completion(claim.id, claim.token)])
    return handle


def test_retry_is_told(memory: MemoryDriver, told: list[set[str]], send: Job[Any, Any]) -> None:
    """It is ready again: for the app's own call as for an operator's."""
    from uuid import uuid4

    handle = finished(memory, send, uuid4(), dead=True)
    told.clear()
    retry(handle.id, tenant=ANY_TENANT)
    by_the_app = list(told)
    [claim] = memory.claim(ClaimRequest(worker := uuid4(), names=("tests.send",), limit=1))
    memory.ack(worker, [Completion(claim.id, claim.token)])
    told.clear()
    operators.retry(memory, [str(handle.id)], fresh=True, by="ops")

    assert by_the_app == [{"mail"}]
    assert told == [{"mail"}]


def test_refused_retry_is_not_told(
    memory: MemoryDriver, told: list[set[str]], send: Job[Any, Any]
) -> None:
    """Nothing became ready."""
    handle = send.enqueue(n=1)
    told.clear()

    [outcome] = operators.retry(memory, [str(handle.id)], fresh=False, by="ops")

    assert outcome.refusal is not None
    assert told == []


@pytest.mark.parametrize("listen", [False, None])
def test_site_whose_workers_only_poll_is_told_nothing(
    told: list[set[str]], send: Job[Any, Any], listen: object
) -> None:
    """It pays for no word that nobody hears."""
    with override_settings(ULTIMATE_JOBS={"LISTEN": listen}):
        send.enqueue(n=1)

    assert told == []


def test_driver_without_wakeups_is_not_asked(
    memory: MemoryDriver,
    told: list[set[str]],
    send: Job[Any, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The flag is what counts."""
    monkeypatch.setattr(MemoryDriver, "supports_wakeups", False)

    send.enqueue(n=1)

    assert told == []
