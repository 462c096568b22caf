"""Threads take claims in line, and everybody hears of room and of rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.processes.fakes import a_claim
from ultimate_jobs.interruptions import ClaimLost, JobCancelled
from ultimate_jobs.processes.crew import Crew, Run

PATIENCE = 10


class Gate:
    """Bodies that begin, are counted, and end when they are let."""

    def __init__(self) -> None:
        self.began: list[Run] = []
        self.arrivals = threading.Semaphore(0)
        self.leave = threading.Semaphore(0)

    def __call__(self, run: Run) -> None:
        self.began.append(run)
        self.arrivals.release()
        assert self.leave.acquire(timeout=PATIENCE)

    def await_begun(self, count: int) -> None:
        for _ in range(count):
            assert self.arrivals.acquire(timeout=PATIENCE)

    def let(self, count: int) -> None:
        self.leave.release(count)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def hire(gate: Gate) -> Iterator[Callable[..., Crew]]:
    """Start crews that work at the gate, and let every body go at the end."""
    crews = []

    def start(size: int, **callbacks: Any) -> Crew:
        silent = {"on_idle": lambda: None, "on_room": lambda: None, "on_bug": lambda: None}
        crew = Crew(size, callbacks.pop("work", gate), **{**silent, **callbacks})
        crews.append(crew)
        crew.start()
        return crew

    yield start
    gate.let(1000)
    for crew in crews:
        crew.close(timeout=PATIENCE)


def test_put_starts_claims_in_order(gate: Gate, hire: Callable[..., Crew]) -> None:
    """First come, first served; the others wait and are counted."""
    crew = hire(2)
    claims = [a_claim() for _ in range(5)]

    crew.put(claims)
    gate.await_begun(2)
    census = crew.census(long_busy=60)

    assert {run.claim.id for run in gate.began} == {claim.id for claim in claims[:2]}
    assert (census.unstarted, census.running, census.idle, census.nimble) == (3, 2, 0, 2)
    assert census.waited > 0
    assert census.in_flight == 5
    assert crew.census(long_busy=0).nimble == 0
    assert crew.take_unstarted() == claims[2:]
    assert crew.census(long_busy=60).unstarted == 0


def test_on_idle_is_called_when_the_last_body_ended(gate: Gate, hire: Callable[..., Crew]) -> None:
    """Not before, while another runs or waits."""
    idle = threading.Event()
    crew = hire(2, on_idle=idle.set)
    crew.put([a_claim() for _ in range(3)])
    gate.await_begun(2)

    gate.let(2)
    gate.await_begun(1)
    too_early = idle.is_set()
    gate.let(1)

    assert not too_early
    assert idle.wait(PATIENCE)


def test_on_room_is_called_once_when_few_wait(gate: Gate, hire: Callable[..., Crew]) -> None:
    """The fetcher sleeps until its next claim is worth it."""
    room = threading.Semaphore(0)
    crew = hire(1, on_room=room.release)
    crew.put([a_claim() for _ in range(4)])
    gate.await_begun(1)

    crew.call_when_room(1)
    before = room.acquire(blocking=False)
    gate.let(2)
    gate.await_begun(2)

    assert not before
    assert room.acquire(timeout=PATIENCE)
    gate.let(1)
    gate.await_begun(1)
    assert not room.acquire(blocking=False)


def test_on_room_is_called_at_once_where_there_is_room_already(
    gate: Gate, hire: Callable[..., Crew]
) -> None:
    """A thread that became free while the fetcher looked elsewhere is not missed."""
    called = threading.Event()
    crew = hire(2, on_room=called.set)
    crew.put([a_claim()])
    gate.await_begun(1)

    crew.call_when_room(-1)

    assert called.is_set()


def test_cancel_reaches_the_runs_of_those_jobs(gate: Gate, hire: Callable[..., Crew]) -> None:
    """Running and waiting ones, and no other."""
    crew = hire(1)
    claims = [a_claim() for _ in range(3)]
    crew.put(claims)
    gate.await_begun(1)

    crew.cancel({claims[0].id, claims[2].id, uuid4()})
    gate.let(2)
    gate.await_begun(2)

    assert [run.context.cancelled for run in gate.began] == [True, False, True]
    with pytest.raises(JobCancelled):
        gate.began[0].context.check()


def test_lose_interrupts_the_runs_of_one_incarnation(gate: Gate, hire: Callable[..., Crew]) -> None:
    """Runs under the fresh id are not touched."""
    crew = hire(2)
    old, new = uuid4(), uuid4()
    crew.put([a_claim(worker=old), a_claim(worker=new)])
    gate.await_begun(2)

    lost = crew.lose(old)

    assert lost == 1
    by_worker = {run.claim.worker: run.context for run in gate.began}
    by_worker[new].check()
    with pytest.raises(ClaimLost):
        by_worker[old].check()


def test_same_job_may_be_here_twice(gate: Gate, hire: Callable[..., Crew]) -> None:
    """After a lost lease a job may come back while its old body still runs."""
    idle = threading.Event()
    crew = hire(2, on_idle=idle.set)
    claim = a_claim()
    crew.put([claim, a_claim(id=claim.id, token=2)])
    gate.await_begun(2)

    both = len(crew.running())
    gate.let(2)

    assert both == 2
    assert idle.wait(PATIENCE)


def test_close_lets_waiting_claims_run(gate: Gate, hire: Callable[..., Crew]) -> None:
    """What was not taken back before is still worked off."""
    crew = hire(1)
    crew.put([a_claim(), a_claim()])
    gate.let(2)

    crew.close(timeout=PATIENCE)

    assert len(gate.began) == 2


def test_bug_in_work_is_told(hire: Callable[..., Crew], caplog: pytest.LogCaptureFixture) -> None:
    """A thread never ends in silence."""
    told = threading.Event()

    def broken(run: Run) -> None:
        raise ZeroDivisionError("a bug")

    hire(1, work=broken, on_bug=told.set).put([a_claim()])

    assert told.wait(PATIENCE)
    assert "ZeroDivisionError: a bug" in caplog.text


def test_start_that_is_stopped_starts_no_more_threads() -> None:
    """A signal during the start is obeyed before every thread is there."""
    nothing: dict[str, Any] = {name: lambda: None for name in ("on_idle", "on_room", "on_bug")}
    crew = Crew(50, lambda run: None, **nothing)
    asked = iter([False, False, True])

    crew.start(is_stopped=lambda: next(asked))
    alive = [thread for thread in crew._threads if thread.is_alive()]
    crew.close(timeout=PATIENCE)

    assert len(alive) == 2
