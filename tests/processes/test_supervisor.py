"""The supervisor over children that a test scripts, by a clock that a test moves."""

from __future__ import annotations

import signal
from itertools import pairwise
from typing import Any

import pytest

from ultimate_jobs.processes.health import STANDSTILL, Health
from ultimate_jobs.processes.link import HURRY, STOP
from ultimate_jobs.processes.supervisor import (
    LOADING,
    LONGEST_WAIT,
    MARGIN,
    SHORTEST_SILENCE,
    SOON,
    TOO_OFTEN,
    Supervisor,
)

Heard = list[tuple[str, dict[str, Any]]]
WELL = Health(live=True, ready=True)
LOADED = Health(live=True, ready=False, begun=False)


class ScriptedChild:
    """A process that says and does what the test tells it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.reports: list[Health] = []
        self.code: int | None = None
        self.words: list[bytes] = []
        self.signals: list[str] = []
        self.closed = False

    def listen(self) -> Health | None:
        latest, self.reports = (self.reports[-1] if self.reports else None), []
        return latest

    def tell(self, word: bytes) -> None:
        self.words.append(word)

    def end_code(self) -> int | None:
        return self.code

    def terminate(self) -> None:
        self.signals.append("TERM")

    def kill(self) -> None:
        self.signals.append("KILL")

    def close(self) -> None:
        self.closed = True


class Stage:
    """A supervisor, its children in the order of their start, and its clock."""

    def __init__(
        self, count: int = 1, *, grace: float = 60.0, silence: float = 30.0, **options: Any
    ):
        self.now = 1000.0
        self.children: list[ScriptedChild] = []
        self.supervisor = Supervisor(
            self._start,
            count=count,
            grace=grace,
            silence=silence,
            clock=lambda: self.now,
            **options,
        )

    def _start(self) -> ScriptedChild:
        self.children.append(ScriptedChild(100 + len(self.children)))
        return self.children[-1]

    def look(self, *, after: float = 0.0) -> None:
        self.now += after
        self.supervisor.look()

    def begin(self) -> None:
        """Start every child and let it report that it is well."""
        self.look()
        for child in self.children:
            child.reports.append(WELL)
        self.look()

    def end(self, code: int) -> bool:
        """Let every child end after a stop, and return what ``run`` returns."""
        for child in self.children:
            child.code = code
        return self.supervisor.run()


def named(heard: Heard, name: str) -> list[dict[str, Any]]:
    return [facts for event, facts in heard if event == f"jobs.supervisor.{name}"]


def test_look_starts_as_many_as_asked() -> None:
    """Once, and no more at the next look."""
    stage = Stage(3)

    stage.look()
    stage.look(after=1)

    assert len(stage.children) == 3


def test_child_that_died_after_a_while_is_replaced_at_once(heard: Heard) -> None:
    """A crash after long work says nothing about the next start."""
    stage = Stage(2)
    stage.begin()

    stage.children[0].code = -signal.SIGKILL
    stage.look(after=SOON)
    stage.look()

    assert [child.code for child in stage.children] == [-signal.SIGKILL, None, None]
    assert stage.children[0].closed
    [facts] = named(heard, "child_ended")
    assert (facts["pid"], facts["exit"], facts["restart_in_seconds"]) == (100, "SIGKILL", 0)


def test_child_that_dies_at_once_is_restarted_later_each_time(heard: Heard) -> None:
    """A broken release does not spin, is told loudly, and is tried for ever."""
    stage = Stage()
    starts = []
    for _ in range(12):
        while len(stage.children) == len(starts):
            stage.look(after=0.25)
        starts.append(stage.now)
        stage.children[-1].code = 1
        stage.look()

    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert gaps[0] <= 1
    assert gaps[-1] > LONGEST_WAIT / 2 - 1
    assert max(gaps) <= LONGEST_WAIT + 1
    told = named(heard, "child_failing")
    assert [facts["times"] for facts in told] == list(range(TOO_OFTEN, 13))


def test_child_that_lived_is_forgiven_its_early_deaths() -> None:
    """One long life, and the next restart is at once again."""
    stage = Stage()
    for _ in range(4):
        stage.look(after=LONGEST_WAIT)
        stage.children[-1].code = 1
        stage.look()
    stage.look(after=LONGEST_WAIT)
    stage.children[-1].reports.append(WELL)
    stage.look()
    count = len(stage.children)

    stage.children[-1].code = 1
    stage.look(after=SOON)
    stage.look()

    assert len(stage.children) == count + 1


def test_child_that_falls_silent_is_killed_and_replaced(heard: Heard) -> None:
    """Its lease has ended by then, so its jobs are another's already."""
    stage = Stage(silence=30)
    stage.begin()

    stage.look(after=29)
    before = list(stage.children[0].signals)
    stage.look(after=2)
    stage.look()
    stage.children[0].code = -signal.SIGKILL
    stage.look()
    stage.look(after=1)

    assert before == []
    assert stage.children[0].signals == ["KILL"]
    assert len(stage.children) == 2
    assert [facts["reason"] for facts in named(heard, "child_stuck")] == ["it is silent"]


def test_child_that_reports_is_left_alone_however_long() -> None:
    """Silence counts from the last report."""
    stage = Stage(silence=30)
    stage.begin()

    for _ in range(20):
        stage.children[0].reports.append(WELL)
        stage.look(after=25)

    assert stage.children[0].signals == []


def test_short_lease_does_not_make_the_supervisor_nervous() -> None:
    """A busy machine delays a report by seconds."""
    stage = Stage(silence=0.5)
    stage.begin()

    stage.look(after=SHORTEST_SILENCE - 1)

    assert stage.children[0].signals == []


def test_child_that_says_it_stands_still_is_killed(heard: Heard) -> None:
    """Its own judgement is enough: a loop of it hangs."""
    stage = Stage()
    stage.begin()

    stage.children[0].reports.append(
        Health(live=False, ready=False, why=("the fetcher stands still for 61 s",))
    )
    stage.look()

    assert stage.children[0].signals == ["KILL"]
    assert "fetcher" in named(heard, "child_stuck")[0]["reason"]


def test_child_that_never_begins_is_killed() -> None:
    """Loading takes long, and not for ever."""
    stage = Stage()
    stage.look()

    stage.look(after=LOADING - 1)
    before = list(stage.children[0].signals)
    stage.look(after=2)

    assert before == []
    assert stage.children[0].signals == ["KILL"]


def test_child_that_is_not_ready_is_left_alone() -> None:
    """A database that is away is no reason to restart anything."""
    stage = Stage()
    stage.begin()

    for _ in range(100):
        stage.children[0].reports.append(Health(live=True, ready=False, why=("no lease",)))
        stage.look(after=5)

    assert stage.children[0].signals == []


def test_stop_tells_each_child_once_and_starts_none(heard: Heard) -> None:
    """The word is said once, whatever dies meanwhile stays dead."""
    stage = Stage(3)
    stage.begin()

    stage.supervisor.stop("SIGTERM")
    stage.look()
    stage.children[0].code = 0
    stage.look()
    stage.look(after=5)

    assert [child.words for child in stage.children] == [[STOP]] * 3
    assert [child.signals for child in stage.children] == [[]] * 3
    assert len(stage.children) == 3
    assert named(heard, "stopping") == [{"reason": "SIGTERM"}]


@pytest.mark.parametrize(("code", "clean"), [(0, True), (1, False), (-signal.SIGKILL, False)])
def test_run_is_clean_only_where_every_child_ended_in_order(code: int, clean: bool) -> None:
    """The exit status of the supervisor is that of its processes."""
    stage = Stage(2)
    stage.begin()
    stage.supervisor.stop()

    assert stage.end(code) is clean


def test_second_signal_hurries_the_children() -> None:
    """It is passed on, once."""
    stage = Stage(2)
    stage.begin()
    stage.supervisor.stop()
    stage.look()

    stage.supervisor.hurry()
    stage.look()
    stage.look()

    assert [child.words for child in stage.children] == [[STOP, HURRY]] * 2


def test_child_that_is_still_loading_is_ended_by_a_signal() -> None:
    """It reads no word yet and has claimed nothing, so that end is in order."""
    stage = Stage()
    stage.look()
    stage.supervisor.stop()
    stage.look()

    assert stage.children[0].signals == ["TERM"]
    assert stage.end(-signal.SIGTERM) is True


def test_child_that_outlives_its_grace_is_killed() -> None:
    """A supervisor always ends."""
    stage = Stage(grace=-MARGIN - 1)
    stage.begin()
    stage.supervisor.stop()
    stage.look()

    assert stage.children[0].signals == ["KILL"]
    assert stage.end(-signal.SIGKILL) is False


def test_burst_replaces_only_who_died_at_work() -> None:
    """What ended well is done; what could not begin would not fare better."""
    stage = Stage(3, ends_by_itself=True)
    stage.look()
    well, killed, refused = stage.children
    for child in (well, killed):
        child.reports.append(WELL)
    refused.reports.append(LOADED)
    stage.look()

    well.code, killed.code, refused.code = 0, -signal.SIGKILL, 1
    stage.look()
    stage.look(after=LONGEST_WAIT)

    assert len(stage.children) == 4
    stage.children[3].code = 0
    stage.look()
    assert stage.supervisor.is_over
    assert stage.supervisor.run() is False


def test_tally_sums_the_dead_and_the_living() -> None:
    """What a process told before it died is not forgotten, and counted once."""
    stage = Stage(2)
    stage.begin()
    for child, completed in zip(stage.children, (3, 4), strict=True):
        child.reports.append(Health(True, True, tally={"completed": completed}))
    stage.look()

    stage.children[0].reports.append(Health(True, True, tally={"completed": 5}))
    stage.children[0].code = 1
    stage.look(after=SOON)
    stage.look()

    assert stage.supervisor.tally.completed == 9


def test_health_is_ready_only_with_every_child() -> None:
    """One of two that is missing is told."""
    stage = Stage(2)
    stage.begin()
    whole = stage.supervisor.health()

    stage.children[0].reports.append(Health(live=True, ready=False))
    stage.look()
    part = stage.supervisor.health()

    assert (whole.live, whole.ready, whole.why) == (True, True, ())
    assert (part.live, part.ready) == (True, False)
    assert part.why == ("1 of 2 processes are not ready",)


def test_health_of_a_supervisor_that_no_longer_looks_is_not_live() -> None:
    """Its own standstill is what it cannot mend."""
    stage = Stage()
    stage.begin()

    stage.now += STANDSTILL + 1

    health = stage.supervisor.health()
    assert (health.live, health.ready) == (False, False)


def test_supervisor_that_fails_lets_go_of_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """They see that it is gone, and stop in order."""
    stage = Stage(2)
    stage.begin()
    monkeypatch.setattr(stage.supervisor, "look", lambda: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        stage.supervisor.run()

    assert [child.closed for child in stage.children] == [True, True]
