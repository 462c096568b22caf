"""The context of a body: what it tells of its run, and how it says stop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from ultimate_jobs.interruptions import AttemptTimeout, ClaimLost, Interruption, JobCancelled
from ultimate_jobs.services.context import JobContext, current_context, enter_context
from ultimate_jobs.types import Claim


def claim(**fields: Any) -> Claim:
    given = {
        "id": uuid4(),
        "run_id": uuid4(),
        "name": "tests.body",
        "queue": "default",
        "tenant": None,
        "key": "k",
        "payload": "{}",
        "worker": uuid4(),
        "token": 1,
        "attempt": 1,
        "max_attempts": 8,
        "lost_leases": 0,
        "retry_count": 0,
        "priority": 0,
        "due_at": datetime(2026, 1, 1, tzinfo=UTC),
        "traceparent": None,
        **fields,
    }
    return Claim(**given)


@pytest.fixture(autouse=True)
def outside() -> Iterator[None]:
    """No context is left behind."""
    yield
    enter_context(None)


def test_context_tells_what_its_claim_says() -> None:
    """A body sees its run and its attempt, and never the token that fences it."""
    held = claim(tenant="acme", attempt=3, traceparent="00-trace")

    context = JobContext(held)

    assert (context.job_id, context.run_id) == (held.id, held.run_id)
    assert (context.name, context.queue, context.tenant) == ("tests.body", "default", "acme")
    assert (context.attempt, context.max_attempts) == (3, 8)
    assert context.traceparent == "00-trace"
    assert not hasattr(context, "token")


@pytest.mark.parametrize("name", ["job_id", "attempt", "tenant", "interrupted", "cancelled"])
def test_context_is_read_only(name: str) -> None:
    """What the run is does not change because a body says so."""
    with pytest.raises(AttributeError):
        setattr(JobContext(claim()), name, 1)


def test_check_without_an_interruption_lets_the_body_go_on() -> None:
    """A check costs nothing and says nothing while all is well."""
    context = JobContext(claim())

    context.check()

    assert (context.interrupted, context.cancelled) == (False, False)


@pytest.mark.parametrize("kind", [JobCancelled, ClaimLost])
def test_check_after_an_interruption_raises_each_time(kind: type[Interruption]) -> None:
    """A body that swallows it once meets it again at the next check, and is remembered."""
    context = JobContext(claim())
    context.interrupt(kind())

    for _ in range(3):
        with pytest.raises(kind):
            context.check()

    assert context.interrupted


@pytest.mark.parametrize("kind", [JobCancelled, ClaimLost])
def test_interruption_passes_except_exception(kind: type[Interruption]) -> None:
    """A body's own error handling does not catch what stops it."""
    context = JobContext(claim())
    context.interrupt(kind())

    def body() -> None:
        try:
            context.check()
        except Exception:
            pytest.fail("caught")

    with pytest.raises(kind):
        body()


def test_interrupted_is_false_until_the_body_was_told() -> None:
    """A body that never checks is not stopped, and its completion decides."""
    context = JobContext(claim())

    context.interrupt(JobCancelled())

    assert context.cancelled
    assert not context.interrupted


@pytest.mark.parametrize("kinds", [(JobCancelled, ClaimLost), (ClaimLost, JobCancelled)])
def test_lost_claim_outranks_a_cancel_in_either_order(kinds: tuple[Any, Any]) -> None:
    """What another worker holds is not this one's to end."""
    context = JobContext(claim())

    for kind in kinds:
        context.interrupt(kind())

    with pytest.raises(ClaimLost):
        context.check()
    assert not context.cancelled


def test_current_context_is_none_outside_of_a_body() -> None:
    """A web request has no run."""
    assert current_context() is None


def test_current_context_belongs_to_one_thread() -> None:
    """Bodies that run beside each other do not see each other's run."""
    enter_context(JobContext(claim()))

    with ThreadPoolExecutor(1) as pool:
        elsewhere = pool.submit(current_context).result()

    assert elsewhere is None
    assert current_context() is not None


def test_current_context_belongs_to_one_task() -> None:
    """Two async bodies on one loop each see their own run, across awaits."""

    async def body(context: JobContext, turn: asyncio.Event, other: asyncio.Event) -> bool:
        enter_context(context)
        other.set()
        await turn.wait()
        return current_context() is context

    async def both() -> list[bool]:
        first, second = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(
            body(JobContext(claim()), first, second), body(JobContext(claim()), second, first)
        )

    assert asyncio.run(both()) == [True, True]
    assert current_context() is None


def test_remaining_without_a_timeout_is_none() -> None:
    """There is no end to count down to."""
    assert JobContext(claim()).remaining() is None


def test_remaining_counts_down_to_nothing() -> None:
    """A body can fit its own timeouts into what is left, and never gets a negative one."""
    context = JobContext(claim())

    context.limit(60)
    assert 0 < (context.remaining() or 0) <= 60
    context.limit(-1)
    assert context.remaining() == 0


def test_timeout_outranks_a_cancel_and_is_told_with_its_seconds() -> None:
    """It says which timeout it was, until the claim is lost besides."""
    context = JobContext(claim())
    context.limit(7)
    context.interrupt(JobCancelled())

    context.interrupt(AttemptTimeout())

    assert (context.timed_out, context.cancelled) == (7, False)
    context.interrupt(ClaimLost())
    assert (context.timed_out, context.lost) == (None, True)


def test_on_interrupt_is_called_once_per_stronger_interruption() -> None:
    """A heartbeat repeats a cancel with every beat; the body's cleanup is not cancelled again."""
    calls: list[int] = []
    context = JobContext(claim())
    context.on_interrupt(lambda: calls.append(1))

    for interruption in (JobCancelled(), JobCancelled(), AttemptTimeout(), JobCancelled()):
        context.interrupt(interruption)

    assert len(calls) == 2


def test_on_interrupt_of_a_run_that_is_interrupted_is_called_at_once() -> None:
    """What came before the body listened is not missed."""
    calls: list[int] = []
    context = JobContext(claim())
    context.interrupt(JobCancelled())

    context.on_interrupt(lambda: calls.append(1))

    assert calls == [1]


def test_fence_makes_the_run_lost() -> None:
    """Its end was written for it."""
    context = JobContext(claim())

    context.fence()

    assert (context.fenced, context.lost) == (True, True)
    with pytest.raises(ClaimLost):
        context.check()
