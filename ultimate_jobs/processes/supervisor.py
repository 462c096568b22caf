"""Keeps worker processes running: starts them, replaces those that died or are stuck, ends them."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from ultimate_jobs.events import emit
from ultimate_jobs.processes.child import Child
from ultimate_jobs.processes.health import STANDSTILL, Health
from ultimate_jobs.processes.link import HURRY, STOP
from ultimate_jobs.processes.loops import spread_wait
from ultimate_jobs.processes.outcomes import Tally
from ultimate_jobs.processes.stopping import Stop
from ultimate_jobs.processes.wakes import Wake

# Seconds.
TICK = 0.1
# A process that ends sooner after its start than this counts as failing.
SOON = 10.0
FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0
# So many in a row, and the supervisor raises its voice.
TOO_OFTEN = 3
# Python, Django and the app may take so long to load before the first report.
LOADING = 120.0
# A process whose reports stop is given as long as its lease, and this at least.
SHORTEST_SILENCE = 10.0
# What a worker may need beyond its grace to leave: see processes/departure.py.
MARGIN = 15.0


@dataclass(slots=True)
class Place:
    """One of the processes to be kept running: the present one and what became of those before.

    Attributes:
        failures: how many in a row ended soon after their start.
        start_at: when the next one is to start.
        code: how the last one ended.
        is_served: nothing more is to be started here.
    """

    number: int
    child: Child | None = None
    health: Health | None = None
    started_at: float = 0.0
    heard_at: float = 0.0
    failures: int = 0
    start_at: float = 0.0
    code: int = 0
    has_begun: bool = False
    was_terminated: bool = False
    was_killed: bool = False
    is_served: bool = False
    earlier: Counter[str] = field(default_factory=Counter)


class Supervisor:
    """Keeps ``count`` worker processes until it is told to stop.

    Args:
        start: starts one worker process.
        grace: seconds that the workers give to running bodies.
        silence: seconds without a report after which a process is stuck.
        ends_by_itself: the workers end when nothing is due; one that ended well is not replaced.
    """

    def __init__(
        self,
        start: Callable[[], Child],
        *,
        count: int,
        grace: float,
        silence: float,
        ends_by_itself: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start_child = start
        self._silence = max(silence, SHORTEST_SILENCE)
        self._ends_by_itself = ends_by_itself
        self._clock = clock
        self._wake = Wake()
        self._stop = Stop(self._wake, grace=grace)
        self._places = [Place(number) for number in range(1, count + 1)]
        self._told = b""
        self._looked_at = clock()

    @property
    def tally(self) -> Tally:
        """How many claims of all the processes ended how, as far as they told."""
        total: Counter[str] = Counter()
        for place in self._places:
            total.update(place.earlier)
            total.update(place.health.tally if place.health else {})
        return Tally(**{name: total[name] for name in Tally().as_dict()})

    def run(self) -> bool:
        """Keep them until stopped; return whether the last of each ended in order."""
        with self._stop.on_signals():
            emit("jobs.supervisor.started", pid=os.getpid(), processes=len(self._places))
            try:
                while not self.is_over:
                    self.look()
                    self._wake.pause(TICK)
            finally:
                self._leave_none()
        emit("jobs.supervisor.stopped", **self.tally.as_dict())
        return all(self._ended_in_order(place) for place in self._places)

    def stop(self, reason: str = "asked") -> None:
        """Stop as the first signal does; called by any thread."""
        self._stop.request(reason)

    def hurry(self, reason: str = "asked") -> None:
        """Stop as the second signal does."""
        self._stop.hurry(reason)

    @property
    def is_over(self) -> bool:
        """Whether nothing runs and nothing will be started."""
        return all(
            place.child is None and (place.is_served or self._stop.requested)
            for place in self._places
        )

    def health(self) -> Health:
        """Look at the supervisor and what it heard of its processes; called by any thread."""
        moves = self._clock() - self._looked_at < STANDSTILL
        told = [place.health for place in self._places if place.child is not None]
        reports = [one for one in told if one is not None]
        why = [f"{self._missing(reports)} of {len(self._places)} processes are not ready"]
        ready = not self._stop.requested and self._missing(reports) == 0
        return Health(
            live=moves,
            ready=moves and ready,
            why=() if ready else tuple(["it stops"] if self._stop.requested else why),
            pid=os.getpid(),
            running=sum(one.running for one in reports),
            unstarted=sum(one.unstarted for one in reports),
            unwritten=sum(one.unwritten for one in reports),
            tally=self.tally.as_dict(),
            processes=tuple(reports),
        )

    def look(self) -> None:
        """Look at every process once, and do what is due."""
        self._looked_at = self._clock()
        self._pass_the_stop_on()
        for place in self._places:
            if place.child is None:
                self._start_if_due(place)
                continue
            self._listen(place, place.child)
            code = place.child.end_code()
            if code is not None:
                # What it said last may have come between the two looks.
                self._listen(place, place.child)
                self._bury(place, place.child, code)
            elif not place.was_killed and (reason := self._stuck(place)):
                place.was_killed = True
                emit("jobs.supervisor.child_stuck", pid=place.child.pid, reason=reason)
                place.child.kill()

    def _listen(self, place: Place, child: Child) -> None:
        report = child.listen()
        if report is not None:
            place.health, place.heard_at = report, self._clock()
            place.has_begun = place.has_begun or report.begun

    def _start_if_due(self, place: Place) -> None:
        now = self._clock()
        if self._stop.requested or place.is_served or now < place.start_at:
            return
        place.child = self._start_child()
        place.started_at = now
        place.has_begun = place.was_terminated = place.was_killed = False
        emit("jobs.supervisor.child_started", number=place.number, pid=place.child.pid)

    def _bury(self, place: Place, child: Child, code: int) -> None:
        child.close()
        if place.health is not None:
            place.earlier.update(place.health.tally)
        place.child, place.health, place.code = None, None, code
        if self._stop.requested:
            return
        # A burst that could not even begin would not fare better the next time.
        if self._ends_by_itself and (code == 0 or not place.has_begun):
            place.is_served = True
            return
        self._put_off(place, child.pid)

    def _put_off(self, place: Place, pid: int) -> None:
        """Set when the next process starts: at once, unless this one ended soon after its start."""
        now = self._clock()
        lived = now - place.started_at
        place.failures = place.failures + 1 if lived < SOON else 0
        wait = 0.0
        if place.failures:
            wait = spread_wait(place.failures, first=FIRST_WAIT, longest=LONGEST_WAIT)
        place.start_at = now + wait
        facts = {"number": place.number, "pid": pid, "exit": _shown(place.code)}
        emit(
            "jobs.supervisor.child_ended",
            **facts,
            lived_seconds=round(lived, 1),
            restart_in_seconds=round(wait, 1),
        )
        if place.failures >= TOO_OFTEN:
            emit("jobs.supervisor.child_failing", **facts, times=place.failures)

    def _stuck(self, place: Place) -> str | None:
        now = self._clock()
        if self._stop.requested and self._stop.remaining() < -MARGIN:
            return "it outlives its grace"
        if place.health is None:
            return "it does not begin" if now - place.started_at > LOADING else None
        if now - place.heard_at > self._silence:
            return "it is silent"
        return None if place.health.live else "; ".join(place.health.why)

    def _pass_the_stop_on(self) -> None:
        if not self._stop.requested:
            return
        word = STOP if self._stop.remaining() > 0 else HURRY
        if word == self._told:
            return
        if not self._told:
            emit("jobs.supervisor.stopping", reason=self._stop.reason)
        self._told = word
        for place in self._places:
            if place.child is None:
                continue
            place.child.tell(word)
            if place.health is None:
                # It may be loading still. There a signal ends it; later it asks a second time for
                # what the word asks for, and the first signal and the word STOP are one.
                place.was_terminated = True
                place.child.terminate()

    def _leave_none(self) -> None:
        """Whatever ended the loop, no process is left without a supervisor."""
        for place in self._places:
            if place.child is not None:
                place.child.close()

    def _missing(self, reports: list[Health]) -> int:
        served = sum(place.is_served for place in self._places)
        return len(self._places) - served - sum(one.ready for one in reports)

    def _ended_in_order(self, place: Place) -> bool:
        # By the signal itself only where nothing was claimed yet: a worker catches it.
        left_unbegun = place.was_terminated and place.code == -signal.SIGTERM
        return place.code == 0 or left_unbegun


def _shown(code: int) -> str:
    if code >= 0:
        return str(code)
    try:
        return signal.Signals(-code).name
    except ValueError:
        return str(code)
