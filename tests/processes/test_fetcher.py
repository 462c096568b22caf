"""A poll claims what can soon start, and nothing where it may not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db.utils import OperationalError

from tests.processes.fakes import a_claim
from ultimate_jobs.processes.crew import Census
from ultimate_jobs.processes.fetcher import BRIEF, MAX_PENDING_BATCHES, OVERLAP_MS, STALE, Fetcher
from ultimate_jobs.types import Claim, Nack, WriteAnswer, Written

BATCH = 100
POLL = 0.25
WORTH = 0.2


class Stage:
    """Everything around a fetcher, in the state that a test sets."""

    def __init__(self) -> None:
        self.worker = uuid4()
        self.stands = True
        self.average: float | None = None
        self.census_now = Census(unstarted=0, running=0, idle=8, nimble=8, waited=0.0)
        self.pending = 0
        self.pending_size = 0
        self.due = 1000
        self.ids: list[UUID] = []
        self.asked: list[int] = []
        self.put_claims: list[Claim] = []
        self.given_back: list[Any] = []
        self.room_asked: list[int | None] = []
        self.runs: list[Any] = []
        self.held: set[tuple[UUID, int]] = set()
        self.unwritten: set[tuple[UUID, int]] = set()
        self.stored: list[tuple[UUID, int]] = []
        self.nacked: list[tuple[UUID, int]] = []
        self.error: Exception | None = None
        crew = SimpleNamespace(
            durations=self,
            census=lambda long_busy: self.census_now,
            put=lambda claims, first: self.put_claims.extend(claims),
            running=lambda: self.runs,
            holds=lambda: self.held,
            take_unstarted=self.take_unstarted,
            call_when_room=self.room_asked.append,
            call_off=lambda: self.room_asked.append(None),
        )
        acknowledger = SimpleNamespace(
            add=self.given_back.append,
            hurry=lambda: None,
            holds=lambda: self.unwritten,
            pending=0,
            pending_size=0,
        )
        self.acknowledger = acknowledger
        lease = SimpleNamespace(stands=lambda: self.stands)
        keeper = SimpleNamespace(current=lease, worker=self.worker)
        self.fetcher = Fetcher(
            SimpleNamespace(  # type: ignore[arg-type]
                claimer=lambda **_: SimpleNamespace(claim=self.claim, owed_in=None),
                nack=self.nack,
                leases=SimpleNamespace(claims=lambda worker: self.stored),
            ),
            keeper=keeper,  # type: ignore[arg-type]
            crew=crew,  # type: ignore[arg-type]
            acknowledger=acknowledger,  # type: ignore[arg-type]
            names=("x",),
            queues=None,
            batch=BATCH,
            poll=POLL,
            worth=WORTH,
        )

    def claim(self, worker: UUID, limit: int) -> list[Claim]:
        if self.error is not None:
            raise self.error
        self.asked.append(limit)
        claims = [a_claim(worker=worker) for _ in range(min(self.due, limit))]
        self.due -= len(claims)
        if self.ids:
            claims[0] = a_claim(worker=worker, id=self.ids[0])
        return claims

    def nack(self, worker: UUID, nacks: list[Nack]) -> list[WriteAnswer]:
        assert not any(nack.counts_as_attempt for nack in nacks)
        self.nacked += [(nack.id, nack.token) for nack in nacks]
        return [WriteAnswer(nack.id, nack.token, Written.DONE) for nack in nacks]

    def take_unstarted(self) -> list[Claim]:
        count = self.census_now.unstarted
        self.census_now = Census(0, self.census_now.running, self.census_now.idle, 0, 0.0)
        return [a_claim(worker=self.worker) for _ in range(count)]


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.mark.parametrize(
    ("average", "census", "expected"),
    [
        # Unknown or long durations: as many as there are idle threads.
        (None, Census(0, 0, 8, 8, 0.0), [8]),
        (5.0, Census(0, 5, 3, 8, 0.0), [3]),
        (5.0, Census(0, 8, 0, 8, 0.0), []),
        (5.0, Census(2, 6, 2, 8, 0.0), []),
        # Short ones: what is worth 0.2 s on top, a batch at most.
        (0.1, Census(0, 0, 8, 8, 0.0), [24]),
        (0.001, Census(0, 0, 8, 8, 0.0), [BATCH]),
        # Nobody starves and half of it is there: a later claim is a bigger batch.
        (0.001, Census(150, 8, 0, 8, 0.0), []),
        (0.001, Census(90, 8, 0, 8, 0.0), [BATCH]),
        # Threads in long bodies work nothing off.
        (0.001, Census(0, 8, 0, 0, 0.0), []),
    ],
)
def test_poll_claims_for_idle_threads_and_a_fixed_time_of_work(
    stage: Stage, average: float | None, census: Census, expected: list[int]
) -> None:
    """What waits unstarted is worth a small fixed time, judged by how long jobs take here."""
    stage.average, stage.census_now = average, census

    stage.fetcher.poll()

    assert stage.asked == expected
    assert len(stage.put_claims) == sum(expected)


def test_poll_that_found_all_it_asked_for_comes_again_at_once(stage: Stage) -> None:
    """There may be more."""
    assert stage.fetcher.poll() == 0.0
    assert not stage.fetcher.found_nothing


def test_poll_that_found_less_sleeps(stage: Stage) -> None:
    """An empty queue is not asked again whenever a thread is free."""
    stage.due = 3

    assert stage.fetcher.poll() == POLL
    assert stage.room_asked == [None]
    assert not stage.fetcher.found_nothing


def test_poll_without_room_sleeps_until_there_is(stage: Stage) -> None:
    """A thread that becomes free wakes the fetcher."""
    stage.census_now = Census(0, 8, 0, 8, 0.0)

    assert stage.fetcher.poll() == POLL
    assert stage.room_asked == [-1]


def test_poll_that_found_nothing_while_nothing_was_in_flight_says_so(stage: Stage) -> None:
    """That, and no less, is the end of a burst."""
    stage.due = 0

    stage.fetcher.poll()
    quiet = stage.fetcher.found_nothing
    stage.acknowledger.pending = 1
    stage.fetcher.poll()

    assert quiet
    assert not stage.fetcher.found_nothing


def test_poll_claims_nothing_while_too_much_is_unwritten(stage: Stage) -> None:
    """A database that takes no acks is not asked for more work."""
    stage.acknowledger.pending = MAX_PENDING_BATCHES * BATCH + 1

    assert stage.fetcher.poll() == BRIEF
    assert stage.asked == []


def test_poll_claims_nothing_without_a_lease(stage: Stage) -> None:
    """What it claimed would be another's at once; and it is no end of a burst."""
    stage.stands = False

    assert stage.fetcher.poll() == BRIEF
    assert stage.asked == []
    assert not stage.fetcher.found_nothing


def test_poll_gives_back_what_waits_behind_long_bodies(
    stage: Stage, heard: list[tuple[str, dict[str, Any]]]
) -> None:
    """A worker never hoards, even where its judgement was wrong."""
    stage.average = 0.001
    stage.census_now = Census(unstarted=50, running=8, idle=0, nimble=0, waited=3 * STALE)

    stage.fetcher.poll()

    assert len(stage.given_back) == 50
    assert {one.write.counts_as_attempt for one in stage.given_back} == {False}
    assert [(name, facts["count"]) for name, facts in heard] == [("jobs.worker.handed_back", 50)]


def test_poll_gives_back_a_job_whose_lost_body_still_runs_here(stage: Stage) -> None:
    """Two bodies of one job do not overlap in one live process."""
    old = a_claim()
    stage.ids = [old.id]
    stage.runs = [SimpleNamespace(claim=old)]

    stage.fetcher.poll()

    [outcome] = stage.given_back
    assert outcome.claim.id == old.id
    assert outcome.write.delay_ms == OVERLAP_MS
    assert old.id not in {claim.id for claim in stage.put_claims}
    assert len(stage.put_claims) == 7


def test_poll_after_unanswered_claim_gives_back_what_nobody_here_knows(
    stage: Stage, heard: list[tuple[str, dict[str, Any]]]
) -> None:
    """A claim that was committed while its connection broke leaves no job running for ever."""
    running, unwritten, orphan = (uuid4(), 1), (uuid4(), 4), (uuid4(), 2)
    stage.error = OperationalError("the connection is lost")
    with pytest.raises(OperationalError):
        stage.fetcher.poll()

    stage.error = None
    stage.held, stage.unwritten = {running}, {unwritten}
    stage.stored = [running, unwritten, orphan]
    stage.fetcher.poll()
    stage.fetcher.poll()

    assert stage.nacked == [orphan]
    assert [(name, facts["count"]) for name, facts in heard] == [("jobs.worker.handed_back", 1)]
