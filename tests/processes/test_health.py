"""Health: what stands still is not live, what cannot claim is not ready, and both say why."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.db.utils import OperationalError

from ultimate_jobs.processes import loops
from ultimate_jobs.processes.health import STANDSTILL, Health, standing_still, unready
from ultimate_jobs.processes.leases import Lease
from ultimate_jobs.processes.loops import Loop


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    moved = Clock()
    monkeypatch.setattr(loops, "time", SimpleNamespace(monotonic=moved.monotonic))
    return moved


def loop(step: Callable[[], float]) -> Loop:
    return Loop("fetcher", step, alias=None, on_bug=lambda: None)


def test_loop_that_pauses_is_not_late(clock: Clock) -> None:
    """A pause is what it asked for."""
    paused = loop(lambda: 3600.0)
    paused.attempt()

    clock.now += 3600

    assert paused.lateness() == 0
    assert standing_still([paused]) == []


def test_loop_that_overslept_stands_still(clock: Clock) -> None:
    """Nobody takes its steps any more."""
    slept = loop(lambda: 1.0)
    slept.attempt()

    clock.now += 1 + STANDSTILL + 1

    assert standing_still([slept]) == ["the fetcher stands still for 61 s"]


def test_loop_whose_step_hangs_stands_still(clock: Clock) -> None:
    """From the outside, while the step is still under way."""
    seen: list[list[str]] = []

    def hang() -> float:
        clock.now += STANDSTILL - 1
        seen.append(standing_still([hung]))
        clock.now += 2
        seen.append(standing_still([hung]))
        return 0.0

    hung = loop(hang)
    hung.attempt()

    assert seen == [[], ["the fetcher stands still for 61 s"]]


def test_loop_that_never_started_is_not_late(clock: Clock) -> None:
    """A worker that loads is live."""
    fresh = loop(lambda: 1.0)

    clock.now += 10_000

    assert fresh.lateness() == 0


def test_database_that_is_away_leaves_a_loop_live_and_not_ready(clock: Clock) -> None:
    """Its steps fail and go on, so restarting the process would mend nothing."""

    def fail() -> float:
        raise OperationalError("refused")

    failing = loop(fail)
    for _ in range(100):
        clock.now += failing.attempt()

    assert standing_still([failing]) == []
    lease = Lease(uuid(), ttl=10, asked_at=clock.now, clock=clock.monotonic)
    assert unready(lease, needs=[failing], stopping=False) == ["the fetcher meets database errors"]


def uuid() -> Any:
    from uuid import uuid4

    return uuid4()


def test_worker_is_ready_only_while_its_lease_stands(clock: Clock) -> None:
    """Without one it may claim nothing."""
    lease = Lease(uuid(), ttl=10, asked_at=clock.now, clock=clock.monotonic)
    fine = unready(lease, needs=[], stopping=False)

    clock.now += 11

    assert fine == []
    assert unready(lease, needs=[], stopping=False) == ["its lease does not stand"]
    assert unready(None, needs=[], stopping=False) == ["its lease does not stand"]


def test_worker_that_stops_is_not_ready(clock: Clock) -> None:
    """It claims nothing more."""
    lease = Lease(uuid(), ttl=10, asked_at=clock.now, clock=clock.monotonic)

    assert unready(lease, needs=[], stopping=True) == ["it stops"]


def test_health_survives_the_way_to_the_supervisor() -> None:
    """What a worker writes, its supervisor reads."""
    told = Health(
        live=False, ready=False, begun=False, why=("a", "b"), pid=7, running=1, unwritten=2
    )

    assert Health.from_json(told.as_json()) == told


def test_health_of_a_later_release_is_read() -> None:
    """In a rolling restart the two need not be of one release."""
    text = json.dumps({"live": True, "ready": True, "later": [1]})

    assert Health.from_json(text) == Health(live=True, ready=True)


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", '"x"', "7"])
def test_text_that_is_no_health_is_refused(text: str) -> None:
    """A supervisor passes it by."""
    with pytest.raises((ValueError, TypeError, AttributeError)):
        Health.from_json(text)


def test_lateness_is_read_by_another_thread() -> None:
    """The one that answers probes is never the one that hangs."""
    entered, leave = threading.Event(), threading.Event()

    def hang() -> float:
        entered.set()
        leave.wait(20)
        return 0.0

    hung = loop(hang)
    thread = threading.Thread(target=hung.attempt)
    thread.start()
    assert entered.wait(20)
    first = hung.lateness()
    threading.Event().wait(0.02)
    later = hung.lateness()
    leave.set()
    thread.join(20)

    assert later > first >= 0
