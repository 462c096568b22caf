"""The threads that run bodies, and the claims that wait for them in memory."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from threading import Condition, Lock, Thread
from typing import Protocol
from uuid import UUID

from ultimate_jobs.interruptions import ClaimLost, JobCancelled
from ultimate_jobs.processes import connections
from ultimate_jobs.processes.durations import Durations
from ultimate_jobs.services.context import JobContext
from ultimate_jobs.types import Claim

logger = logging.getLogger("ultimate_jobs.processes")


@dataclass(slots=True)
class Run:
    """A claim in this process's hands; times are monotonic."""

    claim: Claim
    context: JobContext
    received: float
    started: float = 0.0


@dataclass(frozen=True, slots=True)
class Census:
    """Who does what at one moment.

    Attributes:
        nimble: threads that are idle or not long busy.
        aside: async bodies that have not begun, which wait for no thread.
        waited: seconds that the oldest unstarted claim has waited.
    """

    unstarted: int
    running: int
    idle: int
    nimble: int
    waited: float
    aside: int = 0

    @property
    def in_flight(self) -> int:
        return self.unstarted + self.running + self.aside


class Aside(Protocol):
    """Where claims go whose bodies need no thread of the crew."""

    def take(self, runs: list[Run]) -> list[Run]:
        """Take what belongs here, and return the rest."""
        ...

    def take_unstarted(self) -> list[Claim]: ...

    def unstarted(self) -> list[Claim]: ...

    def running(self) -> list[Run]: ...

    def here(self) -> list[Run]: ...


class Crew:
    """A fixed number of threads that take claims from one line, first come first served.

    Args:
        work: runs one claim and passes on what became of it; must not raise.
        on_idle: called when the last body has ended and no claim waits.
        on_room: called once when there is the room that ``call_when_room`` asked for.
        aside: takes the claims of async bodies; without it they run in threads like others.
    """

    def __init__(
        self,
        size: int,
        work: Callable[[Run], None],
        *,
        on_idle: Callable[[], None],
        on_room: Callable[[], None],
        on_bug: Callable[[], None],
        aside: Aside | None = None,
    ) -> None:
        self.size = size
        self.durations = Durations()
        self._aside = aside
        self._work = work
        self._on_idle = on_idle
        self._on_room = on_room
        self._on_bug = on_bug
        self._lock = Lock()
        self._arrived = Condition(self._lock)
        self._unstarted: deque[Run] = deque()
        # By identity: after a lost lease the same job may be here twice.
        self._running: dict[int, Run] = {}
        self._asked_room: int | None = None
        self._closing = False
        self._threads = [
            Thread(target=self._serve, name=f"jobs-body-{number}", daemon=True)
            for number in range(size)
        ]

    def start(self, *, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Start the threads, or as many as there are when it is to stop."""
        for thread in self._threads:
            if is_stopped():
                return
            thread.start()

    def close(self, *, timeout: float) -> None:
        """Let the threads end once nothing waits; a body that still runs is left to itself."""
        with self._lock:
            self._closing = True
            self._arrived.notify_all()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def put(self, claims: list[Claim], *, first: bool = False) -> None:
        """Queue claims for the threads, behind those that wait or before them."""
        now = time.monotonic()
        runs = [Run(claim, JobContext(claim), now) for claim in claims]
        if self._aside is not None:
            runs = self._aside.take(runs)
        with self._lock:
            if first:
                self._unstarted.extendleft(reversed(runs))
            else:
                self._unstarted.extend(runs)
            self._arrived.notify(len(runs))

    def take_unstarted(self) -> list[Claim]:
        """Take every claim back whose body has not begun."""
        with self._lock:
            taken = [run.claim for run in self._unstarted]
            self._unstarted.clear()
        return taken if self._aside is None else taken + self._aside.take_unstarted()

    def unstarted(self) -> list[Claim]:
        """Return the claims whose bodies have not begun."""
        with self._lock:
            return [run.claim for run in self._unstarted]

    def running(self) -> list[Run]:
        """Return the bodies that run now."""
        with self._lock:
            mine = list(self._running.values())
        return mine if self._aside is None else mine + self._aside.running()

    def holds(self) -> set[tuple[UUID, int]]:
        """Return the claims that are here, by id and token."""
        return {(run.claim.id, run.claim.token) for run in self._here()}

    def census(self, *, long_busy: float) -> Census:
        """Count; a thread whose body runs longer than ``long_busy`` seconds is not nimble."""
        now = time.monotonic()
        aside = self._aside
        elsewhere = (0, 0) if aside is None else (len(aside.unstarted()), len(aside.running()))
        with self._lock:
            running = len(self._running)
            stuck = sum(now - run.started > long_busy for run in self._running.values())
            waited = now - self._unstarted[0].received if self._unstarted else 0.0
            return Census(
                unstarted=len(self._unstarted),
                running=running + elsewhere[1],
                idle=self.size - running,
                nimble=self.size - stuck,
                waited=waited,
                aside=elsewhere[0],
            )

    def call_when_room(self, at_most: int) -> None:
        """Call ``on_room`` once a thread starves or at most so many claims wait, or at once."""
        with self._lock:
            self._asked_room = at_most
            self._tell_if_room()

    def call_off(self) -> None:
        """Do not call ``on_room``."""
        self._asked_room = None

    def cancel(self, ids: AbstractSet[UUID]) -> None:
        """Ask those of these jobs that are here to stop."""
        if not ids:
            return
        for run in self._here():
            if run.claim.id in ids:
                run.context.interrupt(JobCancelled())

    def lose(self, worker: UUID) -> int:
        """Tell every run of a lost lease to stop; return how many there are."""
        lost = [run for run in self._here() if run.claim.worker == worker]
        for run in lost:
            run.context.interrupt(ClaimLost())
        return len(lost)

    def _here(self) -> list[Run]:
        with self._lock:
            mine = [*self._unstarted, *self._running.values()]
        return mine if self._aside is None else mine + self._aside.here()

    def _serve(self) -> None:
        try:
            self._serve_until_closed()
        except BaseException:
            logger.exception("a thread of this worker failed; the worker stops")
            self._on_bug()
        finally:
            connections.close_all()

    def _serve_until_closed(self) -> None:
        done: Run | None = None
        patience: float | None = connections.KEEP_SECONDS
        while True:
            with self._lock:
                run = self._next(done, patience)
            done = None
            if run is not None:
                self._work(run)
                self.durations.note(time.monotonic() - run.started)
                done, patience = run, connections.KEEP_SECONDS
            elif self._closing:
                return
            else:
                connections.close_idle()
                patience = None

    def _next(self, done: Run | None, patience: float | None) -> Run | None:
        """Under the lock: end one run and begin the next, with no moment in between."""
        if done is not None:
            del self._running[id(done)]
            self._tell_if_room()
            if not self._running and not self._unstarted:
                self._on_idle()
        if not self._unstarted and not self._closing:
            self._arrived.wait(patience)
        if not self._unstarted:
            return None
        run = self._unstarted.popleft()
        run.started = time.monotonic()
        self._running[id(run)] = run
        self._tell_if_room()
        return run

    def _tell_if_room(self) -> None:
        if self._asked_room is None:
            return
        waiting = len(self._unstarted)
        if waiting <= self._asked_room or waiting < self.size - len(self._running):
            self._asked_room = None
            self._on_room()
