"""The listener over a subscription that a test scripts."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db.utils import OperationalError

from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.drivers.postgres.wakeups import QUIET
from ultimate_jobs.processes.listener import LONG, SETTLE, Listener

Heard = list[tuple[str, dict[str, Any]]]


class ScriptedSubscription:
    """Opens and hears as the script says; an exception in it is raised."""

    def __init__(
        self, *, opens: list[Any] = (), hears: list[Any] = (), pooled: bool = False
    ) -> None:  # type: ignore[assignment]
        self.opens = list(opens)
        self.hears = list(hears)
        self.is_pooled = pooled
        self.acts: list[str] = []

    def open(self) -> None:
        self.acts.append("open")
        self._play(self.opens)

    def listen(self) -> None:
        self.acts.append("listen")

    def wait(self, seconds: float) -> frozenset[str]:
        heard = self._play(self.hears)
        return frozenset(heard or ())

    def close(self) -> None:
        self.acts.append("close")

    def _play(self, script: list[Any]) -> Any:
        answer = script.pop(0) if script else None
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Stage:
    """A listener and how often it called."""

    def __init__(
        self,
        subscription: Any,
        *,
        queues: tuple[str, ...] | None = None,
        may_be_pooled: bool = False,
    ) -> None:
        self.calls = 0
        self.listener = Listener(
            subscription,
            queues=queues,
            may_be_pooled=may_be_pooled,
            on_work=self._call,
            on_bug=lambda: None,
        )

    def _call(self) -> None:
        self.calls += 1


def names(heard: Heard) -> list[str]:
    return [name for name, _ in heard]


def test_connecting_calls_once_because_something_may_have_been_missed(heard: Heard) -> None:
    """What was announced while nobody listened is looked for at once."""
    subscription = ScriptedSubscription()
    stage = Stage(subscription)

    stage.listener.step()

    assert stage.calls == 1
    assert subscription.acts == ["open", "listen"]
    assert names(heard) == ["jobs.worker.listening"]


def test_word_of_a_served_queue_calls(heard: Heard) -> None:
    """And the next words are gathered for a moment, so that a burst is one look."""
    stage = Stage(ScriptedSubscription(hears=[(), ("mail", "other")]), queues=("mail",))
    stage.listener.step()

    pause = stage.listener.step()

    assert (stage.calls, pause) == (2, SETTLE)


def test_word_is_followed_by_a_second_look(heard: Heard) -> None:
    """A process that enqueues again too soon to say so is heard by the first word it gave."""
    stage = Stage(ScriptedSubscription(hears=[(), ("mail",)]), queues=("mail",))
    stage.listener.step()
    stage.listener.step()

    stage.listener.step()
    after_the_pause = stage.calls
    stage.listener.step()

    assert (after_the_pause, stage.calls) == (3, 3)
    assert SETTLE > QUIET


def test_word_of_another_queue_calls_nobody() -> None:
    """A worker of one queue does not look because another has work."""
    stage = Stage(ScriptedSubscription(hears=[(), ("other",)]), queues=("mail",))
    stage.listener.step()

    assert stage.listener.step() == 0
    assert stage.calls == 1


def test_worker_of_every_queue_is_called_for_any() -> None:
    """No list of queues is all of them."""
    stage = Stage(ScriptedSubscription(hears=[(), ("whatever",)]))
    stage.listener.step()

    stage.listener.step()

    assert stage.calls == 2


def test_lost_connection_is_told_once_and_called_for_at_its_return(heard: Heard) -> None:
    """Deaf is said once however long it lasts; the first look after it finds what was missed."""
    gone = OperationalError("gone")
    subscription = ScriptedSubscription(opens=[None, gone, gone, None], hears=[(), gone])
    stage = Stage(subscription)
    stage.listener.step()

    for _ in range(3):
        with pytest.raises(OperationalError):
            stage.listener.step()
    stage.listener.step()

    assert stage.calls == 2
    assert names(heard) == ["jobs.worker.listening", "jobs.worker.deaf", "jobs.worker.listening"]
    assert subscription.acts[-2:] == ["open", "listen"]


def test_loop_waits_longer_between_tries() -> None:
    """A server that starts is not stormed."""
    gone = OperationalError("gone")
    stage = Stage(ScriptedSubscription(opens=[gone] * 50))

    first = stage.listener.loop.attempt()
    again = stage.listener.loop.attempt()

    assert 0 < first <= 0.1
    assert 0 < again <= first


def test_pooler_is_not_listened_through(heard: Heard) -> None:
    """It would subscribe a session that others are lent; the worker polls, and says so once."""
    subscription = ScriptedSubscription(pooled=True)
    stage = Stage(subscription)

    pauses = [stage.listener.step() for _ in range(3)]

    assert pauses == [LONG] * 3
    assert stage.calls == 0
    assert "listen" not in subscription.acts
    assert [(name, facts) for name, facts in heard] == [
        ("jobs.worker.deaf", {"reason": "the database is reached through a pooler"})
    ]


def test_address_that_was_given_is_listened_at_through_a_pooler_too() -> None:
    """A pooler in session mode keeps the session; whoever gave the address knows."""
    stage = Stage(ScriptedSubscription(pooled=True), may_be_pooled=True)

    stage.listener.step()

    assert stage.calls == 1


def test_listener_hears_a_driver_in_memory(memory: MemoryDriver) -> None:
    """The two ends fit: what one thread announces, another hears."""
    called = threading.Semaphore(0)
    listener = Listener(
        memory.wakeups.subscription(None),
        queues=("mail",),
        may_be_pooled=False,
        on_work=called.release,
        on_bug=lambda: None,
    )
    listener.loop.start()
    assert called.acquire(timeout=20)

    memory.wakeups.announce(["mail"])

    assert called.acquire(timeout=20)
    listener.loop.stop(timeout=20)
    listener.close()
