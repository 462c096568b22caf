"""How a worker leaves: in order if its bodies end in time, else handing them back last of all."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.events import emit
from ultimate_jobs.processes.acknowledger import Acknowledger
from ultimate_jobs.processes.crew import Crew, Run
from ultimate_jobs.processes.leases import LeaseKeeper
from ultimate_jobs.processes.loops import PASSING
from ultimate_jobs.processes.stopping import Stop
from ultimate_jobs.processes.wakes import Wake
from ultimate_jobs.services import attempts
from ultimate_jobs.types import Written

# Seconds. Ends of other jobs may still be written for so long before the rest is handed back.
LAST_WRITES = 2.0
# The process is left so long after its grace at the latest, whatever hangs.
BACKSTOP = 10.0
BACKSTOP_INTERVAL = 0.5
# Whoever waits for the end of what is in flight is woken by it, and looks again so often anyway.
TICK = 0.1
# What is handed back while its body still runs is not claimed before this process is gone.
HAND_BACK_DELAY_MS = 1_000


class Departure:
    """The end of a worker, from the moment it no longer claims.

    Args:
        before_leaving: called before the process is left with bodies still running.
        leave: ends the process at once, with an exit code.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        stop: Stop,
        wake: Wake,
        crew: Crew,
        acknowledger: Acknowledger,
        keeper: LeaseKeeper,
        before_leaving: Callable[[], None] = lambda: None,
        leave: Callable[[int], None] = os._exit,
    ) -> None:
        self._driver = driver
        self._stop = stop
        self._wake = wake
        self._crew = crew
        self._acknowledger = acknowledger
        self._keeper = keeper
        self._before_leaving = before_leaving
        self._leave = leave

    def is_quiet(self) -> bool:
        """Whether nothing is in flight."""
        # In this order: an end is passed on before its run is forgotten.
        census = self._crew.census(long_busy=0)
        return census.in_flight == 0 and self._acknowledger.pending == 0

    def wait_for_bodies(self) -> bool:
        """Wait until nothing is in flight; say whether that came within the grace."""
        while not self.is_quiet():
            remaining = self._stop.remaining()
            if remaining <= 0 or self._only_fenced_left():
                return False
            self._wake.pause(min(remaining, TICK))
        return True

    def release(self) -> None:
        """Give the lease back, with nothing left under it."""
        # A database that is gone is no reason to stay: the lease ends by itself.
        with suppress(*PASSING):
            self._keeper.release()
        self._say_stopped()

    def leave_bodies_behind(self) -> None:
        """End the process with bodies running; handing them back is its last act."""
        self._await_last_writes()
        runs = [run for run in self._crew.running() if not run.context.lost]
        emit("jobs.worker.handed_back", count=len(runs), reason=self._stop.reason)
        self._acknowledger.tally.add("handed_back", len(runs))
        self._say_stopped()
        self._before_leaving()
        sys.stdout.flush()
        sys.stderr.flush()
        with suppress(*PASSING):
            self._hand_back(runs)
        self._leave(1)

    def leave_if_stuck(self) -> float:
        """Leave where the main thread has not done so long after the grace."""
        if self._stop.requested and self._stop.remaining() < -BACKSTOP:
            self._leave(1)
        return BACKSTOP_INTERVAL

    def _only_fenced_left(self) -> bool:
        """Whether the only bodies left are those whose end has been written for them."""
        running = self._crew.running()
        census = self._crew.census(long_busy=0)
        return (
            census.unstarted == 0
            and not self._acknowledger.pending
            and census.running == len(running)
            and bool(running)
            and all(run.context.fenced for run in running)
        )

    def _await_last_writes(self) -> None:
        deadline = time.monotonic() + LAST_WRITES
        while self._acknowledger.pending and time.monotonic() < deadline:
            self._acknowledger.hurry()
            self._wake.pause(TICK)

    def _hand_back(self, runs: list[Run]) -> None:
        written = True
        for worker in {run.claim.worker for run in runs}:
            mine = [run.claim for run in runs if run.claim.worker == worker]
            nacks = [attempts.hand_back(one, delay_ms=HAND_BACK_DELAY_MS) for one in mine]
            answers = self._driver.nack(worker, nacks)
            written = written and all(one.outcome is not Written.BUSY for one in answers)
        # Released with a job still running under it, the lease would bring that job back before
        # this process is gone; left alone, it ends in its time.
        if written and not self._acknowledger.pending:
            self._keeper.release()

    def _say_stopped(self) -> None:
        emit("jobs.worker.stopped", **self._acknowledger.tally.as_dict())
