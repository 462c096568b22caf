"""The end of a worker: nothing in flight, or a process that is left with its bodies running."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.db.utils import OperationalError

from tests.processes.fakes import ScriptedDriver, a_claim
from ultimate_jobs.processes import departure as departure_module
from ultimate_jobs.processes.crew import Census, Run
from ultimate_jobs.processes.departure import BACKSTOP, HAND_BACK_DELAY_MS, Departure
from ultimate_jobs.processes.outcomes import Tally
from ultimate_jobs.processes.stopping import Stop
from ultimate_jobs.processes.wakes import Wake
from ultimate_jobs.services.context import JobContext
from ultimate_jobs.types import Nack, Written


class Stage:
    """A worker at its end, with so many bodies running, that writes down what it does."""

    def __init__(self, *, running: int = 0, grace: float = 30.0) -> None:
        self.acts: list[str] = []
        self.claims = [a_claim(worker=uuid4()) for _ in range(running)]
        self.runs = [Run(claim, JobContext(claim), received=0.0) for claim in self.claims]
        self.pending = 0
        self.driver = ScriptedDriver(self.answer)
        self.answers: Any = Written.DONE
        self.stop = Stop(Wake(), grace=grace)
        crew = SimpleNamespace(
            census=lambda long_busy: Census(0, len(self.claims), 1, 1, 0.0),
            running=lambda: self.runs,
        )
        acknowledger = SimpleNamespace(pending=0, tally=Tally(), hurry=lambda: None)
        keeper = SimpleNamespace(release=lambda: self.acts.append("release"))
        self.acknowledger = acknowledger
        self.departure = Departure(
            self.driver,  # type: ignore[arg-type]
            stop=self.stop,
            wake=Wake(),
            crew=crew,  # type: ignore[arg-type]
            acknowledger=acknowledger,  # type: ignore[arg-type]
            keeper=keeper,  # type: ignore[arg-type]
            before_leaving=lambda: self.acts.append("farewell"),
            leave=lambda code: self.acts.append(f"leave {code}"),
        )

    def answer(self, write: Any) -> Any:
        self.acts.append("hand back")
        return self.answers


def test_wait_for_bodies_ends_with_the_last_one() -> None:
    """Where nothing is in flight there is nothing to wait for."""
    stage = Stage()
    stage.stop.request("SIGTERM")

    assert stage.departure.wait_for_bodies()


@pytest.mark.parametrize(("running", "pending"), [(1, 0), (0, 1)])
def test_wait_for_bodies_ends_with_the_grace(running: int, pending: int) -> None:
    """A body that runs and an end that is not yet written are both waited for, and no longer."""
    stage = Stage(running=running, grace=0.01)
    stage.acknowledger.pending = pending
    stage.stop.request("SIGTERM")

    assert not stage.departure.wait_for_bodies()


def test_wait_for_bodies_waits_for_none_that_was_fenced_out() -> None:
    """Their ends are written; what they still do holds up no restart."""
    stage = Stage(running=2, grace=60)
    stage.stop.recycle("a body outlived its timeout")

    for run in stage.runs:
        run.context.fence()

    assert not stage.departure.wait_for_bodies()


def test_leave_bodies_behind_hands_none_back_that_was_fenced_out() -> None:
    """It is another's by now, and not counted twice."""
    stage = Stage(running=2)
    stage.runs[0].context.fence()

    stage.departure.leave_bodies_behind()

    [writes] = [writes for _, _, writes in stage.driver.sent]
    assert [write.id for write in writes] == [stage.claims[1].id]
    assert stage.acknowledger.tally.handed_back == 1


def test_leave_bodies_behind_hands_them_back_last() -> None:
    """Nothing but the lease's release stands between the hand-back and the end of the process."""
    stage = Stage(running=2)

    stage.departure.leave_bodies_behind()

    assert stage.acts == ["farewell", "hand back", "hand back", "release", "leave 1"]
    [write, _] = [write for _, _, writes in stage.driver.sent for write in writes]
    assert isinstance(write, Nack)
    assert not write.counts_as_attempt
    assert write.delay_ms == HAND_BACK_DELAY_MS >= 500


def test_leave_bodies_behind_where_a_row_is_locked_keeps_the_lease() -> None:
    """Else that job would come back while its body may still run here."""
    stage = Stage(running=1)
    stage.answers = Written.BUSY

    stage.departure.leave_bodies_behind()

    assert stage.acts == ["farewell", "hand back", "leave 1"]


def test_leave_bodies_behind_without_a_database_leaves_all_the_same() -> None:
    """The lease ends by itself, and others rescue."""
    stage = Stage(running=1)
    stage.answers = OperationalError("gone")

    stage.departure.leave_bodies_behind()

    assert stage.acts == ["farewell", "hand back", "leave 1"]


def test_leave_bodies_behind_waits_a_little_for_other_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not for long; and a lease under which something is unwritten is not given back."""
    monkeypatch.setattr(departure_module, "LAST_WRITES", 0.02)
    stage = Stage(running=1)
    stage.acknowledger.pending = 1

    stage.departure.leave_bodies_behind()

    assert stage.acts == ["farewell", "hand back", "leave 1"]


def test_leave_if_stuck_leaves_only_long_after_the_grace() -> None:
    """A main thread that hangs does not keep the process for ever."""
    stage = Stage(grace=0)
    stage.departure.leave_if_stuck()
    stage.stop.request("SIGTERM")
    stage.departure.leave_if_stuck()
    patient = list(stage.acts)

    late = Stage(grace=-BACKSTOP - 1)
    late.stop.request("SIGTERM")
    late.departure.leave_if_stuck()

    assert patient == []
    assert late.acts == ["leave 1"]
