"""Claims in memory, again and again."""

from __future__ import annotations

from uuid import UUID

from ultimate_jobs.drivers.memory.jobs import MemoryJobs
from ultimate_jobs.drivers.memory.turns import Turns
from ultimate_jobs.types import Claim, ClaimRequest


class MemoryClaimer:
    """Looks at every live job each time: only the rotation needs a memory."""

    def __init__(
        self,
        jobs: MemoryJobs,
        *,
        queues: tuple[str, ...] | None,
        names: tuple[str, ...],
        without: tuple[str, ...] = (),
    ) -> None:
        self._jobs = jobs
        self._queues = queues
        self._names = names
        self._without = without
        self._turns = Turns()

    @property
    def owed_in(self) -> float | None:
        return None

    def claim(self, worker: UUID, limit: int) -> list[Claim]:
        """Take at most ``limit`` due jobs, in the order in which they are to run."""
        request = ClaimRequest(worker, names=self._names, limit=limit, queues=self._queues)
        return self._jobs.claim(request, turns=self._turns, without=self._without)
