"""The lease is judged by this process's own clock, and lost once and for all."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any
from uuid import UUID, uuid4

import pytest

from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.processes.heartbeat import Heartbeat
from ultimate_jobs.processes.leases import LeaseKeeper
from ultimate_jobs.types import HeartbeatAnswer, WorkerCard

TTL = 30.0

Heard = list[tuple[str, dict[str, Any]]]


class Fixture:
    """A keeper and its heartbeat over a driver in memory, with a clock that stands still."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.driver = MemoryDriver()
        self.lost: list[UUID] = []
        self.cancelled: list[AbstractSet[UUID]] = []
        self.keeper = LeaseKeeper(
            self.driver,
            card=lambda: WorkerCard(uuid4(), ("x",), None, "host", 1, 1),
            ttl=TTL,
            on_lost=self._on_lost,
            clock=lambda: self.now,
        )
        self.heartbeat = Heartbeat(
            self.driver,
            self.keeper,
            interval=5.0,
            on_cancel=self.cancelled.append,
            on_bug=lambda: None,
        )

    def _on_lost(self, worker: UUID) -> int:
        self.lost.append(worker)
        return 2


@pytest.fixture
def fixture() -> Fixture:
    return Fixture()


def test_take_registers_a_fresh_id_each_time(fixture: Fixture) -> None:
    """Host name and pid make no identity: a new incarnation covers no old claim."""
    first = fixture.keeper.take()
    second = fixture.keeper.take()

    assert first.worker != second.worker
    assert fixture.keeper.stands(second.worker)
    assert not fixture.keeper.stands(first.worker)
    assert [one.worker for one in fixture.driver.leases.workers()] == [second.worker]


def test_lease_ends_a_ttl_after_it_was_asked_for(fixture: Fixture) -> None:
    """Not after the answer: it may end here early, never late."""
    lease = fixture.keeper.take()

    fixture.now += TTL - 0.001
    before = lease.stands()
    fixture.now += 0.001

    assert before
    assert not lease.stands()


def test_beat_renews_and_passes_cancels_on(fixture: Fixture) -> None:
    """A renewal counts from before it was sent."""
    lease = fixture.keeper.take()
    fixture.now += 20

    pause = fixture.heartbeat.beat()

    assert pause == 5.0
    assert lease.remaining() == TTL
    assert fixture.cancelled == [frozenset()]


def test_beat_that_is_answered_dead_loses_the_lease_and_takes_another(
    fixture: Fixture, heard: Heard
) -> None:
    """The worker goes on under a fresh id, and says what it lost."""
    lease = fixture.keeper.take()
    fixture.driver.leases.release(lease.worker)

    pause = fixture.heartbeat.beat()
    fixture.heartbeat.beat()

    assert pause == 0.0
    assert lease.lost
    assert fixture.lost == [lease.worker]
    assert fixture.keeper.worker != lease.worker
    assert fixture.keeper.stands(fixture.keeper.worker)
    assert heard == [
        (
            "jobs.worker.lease_lost",
            {"worker": str(lease.worker), "reason": "expired", "runs": 2},
        )
    ]


def test_watch_loses_a_lease_that_no_renewal_reached(fixture: Fixture, heard: Heard) -> None:
    """A database that answers nothing cannot keep a worker believing."""
    lease = fixture.keeper.take()
    fixture.now += TTL - 3

    pause = fixture.heartbeat.watch()
    fixture.now += 3
    fixture.heartbeat.watch()
    fixture.heartbeat.watch()

    assert pause == 3
    assert lease.lost
    assert [name for name, _ in heard] == ["jobs.worker.lease_lost"]


def test_late_answer_does_not_revive_a_lost_lease(
    fixture: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A renewal that hung and then succeeded comes too late: its jobs may run elsewhere."""
    lease = fixture.keeper.take()

    def hang(worker: UUID) -> HeartbeatAnswer:
        fixture.now += TTL
        fixture.heartbeat.watch()
        return HeartbeatAnswer(alive=True)

    monkeypatch.setattr(fixture.driver, "heartbeat", hang)
    fixture.heartbeat.beat()

    assert lease.lost
    assert not lease.stands()
    assert not fixture.keeper.stands(lease.worker)


def test_release_gives_the_present_lease_back(fixture: Fixture) -> None:
    """And is no error where none was taken."""
    fixture.keeper.release()
    fixture.keeper.take()

    fixture.keeper.release()

    assert fixture.driver.leases.workers() == []
