"""Whether a process lives and is ready: told of a worker by its loops, of a supervisor by both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ultimate_jobs.processes.leases import Lease
from ultimate_jobs.processes.loops import Loop
from ultimate_jobs.processes.outcomes import Tally

# Seconds. A statement may be slow, and a machine busy; what stands still for longer is stuck.
STANDSTILL = 60.0


@dataclass(frozen=True, slots=True)
class Health:
    """One look at a process.

    Attributes:
        live: it moves; a database that is away changes nothing about that.
        ready: it is at work.
        begun: it has taken its lease, once at least.
        why: what keeps it from one or the other.
        running: bodies that run now.
        unstarted: claims that wait in memory.
        unwritten: ends that wait to be written.
        processes: of a supervisor, its worker processes.
    """

    live: bool
    ready: bool
    begun: bool = True
    why: tuple[str, ...] = ()
    pid: int = 0
    running: int = 0
    unstarted: int = 0
    unwritten: int = 0
    tally: dict[str, int] = field(default_factory=lambda: Tally().as_dict())
    processes: tuple[Health, ...] = ()

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Health:
        """Read what ``as_json`` wrote of a worker; keys that a later release added are passed by.

        Raises:
            ValueError, TypeError: it is none.
        """
        given: dict[str, Any] = json.loads(text)
        known = {name: given[name] for name in given if name in cls.__dataclass_fields__}
        return cls(**{**known, "why": tuple(given.get("why", ())), "processes": ()})


def standing_still(loops: Sequence[Loop]) -> list[str]:
    """Return a sentence for each loop whose step hangs, or is long overdue."""
    return [
        f"the {loop.name} stands still for {loop.lateness():.0f} s"
        for loop in loops
        if loop.lateness() > STANDSTILL
    ]


def unready(lease: Lease | None, *, needs: Sequence[Loop], stopping: bool) -> list[str]:
    """Return a sentence for each reason why a worker claims nothing.

    Args:
        needs: the loops without which nothing is claimed.
    """
    reasons = ["it stops"] if stopping else []
    if lease is None or not lease.stands():
        reasons.append("its lease does not stand")
    return [*reasons, *(f"the {one.name} meets database errors" for one in needs if one.is_failing)]
