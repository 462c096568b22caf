"""A bound on a queue's depth: what an enqueue into a full queue meets."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from tests.contract.factories import EnqueueRequestFactory
from ultimate_jobs import ANY_TENANT, Job, get, job
from ultimate_jobs.drivers import current_driver, use_driver
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.errors import JobDuplicate, QueueFull
from ultimate_jobs.records import JobFilter
from ultimate_jobs.services.depth import FULL_DELAY_MS, admit
from ultimate_jobs.states import JobState
from ultimate_jobs.types import ClaimRequest

pytestmark = pytest.mark.usefixtures("own_registry")
POSTGRES = pytest.param("postgres", marks=pytest.mark.django_db)

Handle = Job[Any, Any]
FULL = timedelta(milliseconds=FULL_DELAY_MS)


def bounded(max_depth: int, **options: Any) -> override_settings:
    return override_settings(
        ULTIMATE_JOBS={"QUEUES": {"billing": {"max_depth": max_depth, **options}}}
    )


@pytest.fixture(autouse=True, params=["memory", POSTGRES])
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every test runs over both drivers."""
    if request.param == "memory":
        use_driver(MemoryDriver())
    yield request.param
    use_driver(None)


@pytest.fixture
def send() -> Handle:
    @job(key="invoice:{n}", name="tests.send", queue="billing")
    def send(ctx: Any, n: int) -> None: ...

    return send


def many(*numbers: int) -> list[dict[str, int]]:
    return [{"n": n} for n in numbers]


def stored() -> int:
    return len(current_driver().introspection.find(JobFilter(), limit=1000))


def wait_of(handle: Any) -> timedelta:
    return get(handle.id, tenant=ANY_TENANT).run_at - current_driver().introspection.now()


def test_enqueue_into_a_full_queue_is_refused_and_writes_nothing(send: Handle) -> None:
    """The refusal says how full it is, what the bound is, and what was asked."""
    with bounded(2):
        send.enqueue_many(many(1, 2))
        with pytest.raises(QueueFull) as caught:
            send.enqueue(n=3)

    error = caught.value
    assert (error.queue, error.depth, error.bound, error.asked) == ("billing", 2, 2, 1)
    assert error.retriable
    assert "billing" in error.cause
    assert stored() == 2


def test_enqueue_up_to_the_bound_is_taken(send: Handle) -> None:
    """The bound itself is allowed."""
    with bounded(3):
        send.enqueue_many(many(1, 2))
        send.enqueue(n=3)

    assert stored() == 3


def test_enqueue_many_is_taken_as_a_whole_or_not_at_all(send: Handle) -> None:
    """Two of three would fit; none is written."""
    with bounded(3):
        send.enqueue(n=1)
        with pytest.raises(QueueFull) as caught:
            send.enqueue_many(many(2, 3, 4))

    assert caught.value.asked == 3
    assert caught.value.retriable
    assert stored() == 1


def test_list_that_is_longer_than_the_bound_is_told_that_it_never_fits(send: Handle) -> None:
    """Trying again would meet the same refusal for ever, also when the queue is empty."""
    with bounded(3), pytest.raises(QueueFull) as caught:
        send.enqueue_many(many(1, 2, 3, 4))

    assert not caught.value.retriable
    assert not pickle.loads(pickle.dumps(caught.value)).retriable
    assert caught.value.fix == (
        'enqueue at most 3 at a time, or raise QUEUES["billing"]["max_depth"]'
    )
    assert stored() == 0


def test_enqueue_of_a_held_key_in_a_full_queue_answers_the_job_that_holds_it(
    send: Handle,
) -> None:
    """It adds nothing, so there is nothing to refuse."""
    with bounded(1):
        first = send.enqueue(n=1)
        again = send.enqueue(n=1)

    assert (again.id, again.deduped) == (first.id, True)
    assert stored() == 1


def test_enqueue_many_counts_only_what_it_would_add(send: Handle) -> None:
    """Held keys and a key that stands twice in the list are no more jobs."""
    with bounded(3):
        send.enqueue_many(many(1, 2))
        answers = send.enqueue_many(many(1, 3, 2, 3))

    assert [one.deduped for one in answers] == [True, False, True, True]
    assert stored() == 3


def test_enqueue_with_conflict_error_in_a_full_queue_is_told_of_the_duplicate(
    send: Handle,
) -> None:
    """What stands in the way is the job that holds the key."""
    with bounded(1):
        send.enqueue(n=1)
        with pytest.raises(JobDuplicate):
            send.using(on_conflict="error").enqueue(n=1)


def test_enqueue_for_later_is_not_refused(send: Handle) -> None:
    """It is no part of the depth before its time has come."""
    later = datetime.now(UTC) + timedelta(days=1)
    with bounded(1):
        send.enqueue(n=1)
        send.using(run_after=timedelta(hours=1)).enqueue(n=2)
        send.using(run_after=later).enqueue(n=3)

    assert stored() == 3


def test_enqueue_for_a_time_that_has_passed_is_refused_like_one_for_now(send: Handle) -> None:
    """No way round the bound."""
    with bounded(1):
        send.enqueue(n=1)
        with pytest.raises(QueueFull):
            send.using(run_after=datetime.now(UTC) - timedelta(days=1)).enqueue(n=2)


def test_queue_that_was_worked_off_takes_jobs_again(send: Handle) -> None:
    """A claimed job waits no longer."""
    driver = current_driver()
    with bounded(1):
        first = send.enqueue(n=1)
        driver.claim(ClaimRequest(first.id, ("tests.send",), 1, ("billing",)))
        second = send.enqueue(n=2)

    assert second.deduped is False


def test_other_queues_know_no_bound(send: Handle) -> None:
    """Also where one call sends the job elsewhere."""
    with bounded(1):
        send.enqueue(n=1)
        send.using(queue="elsewhere").enqueue_many(many(2, 3))

    assert stored() == 3


def test_enqueue_into_a_full_queue_that_delays_is_delayed(send: Handle) -> None:
    """It is accepted, and waits for one to two minutes; those that fit do not."""
    with bounded(1, when_full="delay"):
        [first, second] = send.enqueue_many(many(1, 2))
        third = send.enqueue(n=3)

    assert [one.state for one in (first, second, third)] == [
        JobState.READY,
        JobState.DELAYED,
        JobState.DELAYED,
    ]
    for late in (second, third):
        assert FULL * 0.5 < wait_of(late) <= FULL * 2


def test_enqueue_for_later_into_a_full_queue_that_delays_keeps_its_time(send: Handle) -> None:
    """Nothing is added to a wait that was asked for."""
    with bounded(1, when_full="delay"):
        send.enqueue(n=1)
        later = send.using(run_after=timedelta(days=1)).enqueue(n=2)

    assert timedelta(hours=23) < wait_of(later) <= timedelta(days=1)


@pytest.mark.parametrize("kind", [POSTGRES], indirect=True)
def test_bound_costs_one_statement_and_none_without_it(send: Handle, kind: str) -> None:
    """Queues without a bound pay nothing."""
    with transaction.atomic():
        send.enqueue(n=1)
        with CaptureQueriesContext(
            connection,
        ) as free:
            send.enqueue(n=2)
        with bounded(10), CaptureQueriesContext(connection) as counted:
            send.enqueue(n=3)

    assert len(counted) == len(free) + 1


def test_admit_looks_at_each_queue_for_itself(kind: str) -> None:
    """A middleware may send one job of a list elsewhere, or take all of them out."""
    driver = current_driver()
    requests = [
        EnqueueRequestFactory(queue=queue) for queue in ("billing", "free", "billing", "free")
    ]

    with bounded(1, when_full="delay"):
        admitted = admit(driver, requests)
        none = admit(driver, [])

    assert [one.delay_ms > 0 for one in admitted] == [False, False, True, False]
    assert none == []
