"""pause_queue and resume_queue, as an app calls them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from tests.processes.fakes import recorded_events
from ultimate_jobs import job, pause_queue, resume_queue
from ultimate_jobs.drivers import current_driver, use_driver
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.errors import JobKeyInvalid
from ultimate_jobs.services.queues import is_known


@pytest.fixture
def memory() -> Iterator[MemoryDriver]:
    driver = MemoryDriver()
    use_driver(driver)
    yield driver
    use_driver(None)


@pytest.fixture
def heard() -> Iterator[list[tuple[str, dict[str, Any]]]]:
    with recorded_events() as events:
        yield events


def test_pause_and_resume_say_what_they_did(
    memory: MemoryDriver, heard: list[tuple[str, dict[str, Any]]]
) -> None:
    """Who asked is in the answer and in the log; a second time is no event."""
    first, second = pause_queue("billing", by="ann"), pause_queue("billing", by="bob")
    goes_on, went_on = resume_queue("billing", by="cy"), resume_queue("billing")

    assert (first.changed, first.paused_by) == (True, "ann")
    assert (second.changed, second.paused_by) == (False, "ann")
    assert (goes_on.changed, goes_on.paused_at) == (True, None)
    assert not went_on.changed
    assert heard == [
        ("jobs.queue.paused", {"queue": "billing", "by": "ann"}),
        ("jobs.queue.resumed", {"queue": "billing", "by": "cy"}),
    ]


@pytest.mark.parametrize("verb", [pause_queue, resume_queue])
@pytest.mark.parametrize("name", ["", "a,b", "nul\x00", "\ud800", None, 5], ids=repr)
def test_name_that_no_queue_can_have_is_refused(memory: MemoryDriver, verb: Any, name: Any) -> None:
    """Before anything is written."""
    with pytest.raises(JobKeyInvalid):
        verb(name)

    assert memory.queues.paused() == []


def test_resume_wakes_who_listens(memory: MemoryDriver) -> None:
    """An idle worker need not wait for its next poll; where nothing changed nobody is woken."""
    pause_queue("billing")
    listener = memory.wakeups.subscription(None)
    listener.listen()

    resume_queue("billing")
    resume_queue("other")

    assert listener.wait(1) == {"billing"}


@pytest.mark.django_db(transaction=True)
def test_pause_in_a_transaction_is_undone_with_it() -> None:
    """It belongs to what the app does beside it."""
    with transaction.atomic():
        pause_queue("billing")
        transaction.set_rollback(True)

    assert current_driver().queues.paused() == []


def test_queue_is_known_by_a_declaration_or_by_a_job(
    memory: MemoryDriver, own_registry: None
) -> None:
    """A misspelt one is neither."""

    @job(key="{n}", name="tests.send", queue="declared")
    def send(ctx: Any, n: int) -> None: ...

    send.using(queue="used").enqueue(n=1)

    assert [is_known(memory, name) for name in ("declared", "used", "billling")] == [
        True,
        True,
        False,
    ]
