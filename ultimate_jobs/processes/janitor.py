"""Takes jobs from workers whose lease has ended, and gives them back to the queue."""

from __future__ import annotations

import random
from collections.abc import Callable

from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.events import emit
from ultimate_jobs.processes.loops import Loop
from ultimate_jobs.states import JobState

SWEEP = 500


class Janitor:
    """Sweeps at the start and then every ``interval`` seconds, whoever else does."""

    def __init__(self, driver: Driver, *, interval: float, on_bug: Callable[[], None]) -> None:
        self.loop = Loop("janitor", self.sweep, alias=driver.alias, on_bug=on_bug)
        self._driver = driver
        self._interval = interval

    def sweep(self) -> float:
        """Rescue until nothing is left to rescue."""
        while self._sweep_once() == SWEEP:
            pass
        # Workers that started together should not sweep together.
        return self._interval * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load

    def _sweep_once(self) -> int:
        rescued = self._driver.leases.rescue(limit=SWEEP)
        if rescued:
            emit(
                "jobs.rescued",
                count=len(rescued),
                dead=sum(one.state is JobState.DEAD for one in rescued),
                workers=",".join(sorted({str(one.worker) for one in rescued})),
            )
        return len(rescued)
