"""One run of the bench: what it was asked, what it has found so far, and what it must remove."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from example_project.bench.arithmetic import middle
from example_project.bench.options import Options
from example_project.bench.rows import Rows
from example_project.bench.server import conninfo
from example_project.bench.workers import Workers

OURS, CEILING = "ours", "ceiling"


class Session:
    """A run; its id names its queues.

    Attributes:
        checks: by phase, what the server's own counters say of the recounted rows.
        cost: figures that are no rates.
    """

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        self.sizes = options.sizes
        self.say = say
        self.conninfo = conninfo()
        self.rows = Rows(secrets.token_hex(3))
        self.queue = f"{self.rows.queue}0000"
        self.workers = Workers(self._queues() if options.is_forced else ())
        self.checks: dict[str, dict[str, Any]] = {}
        self.cost: dict[str, float] = {}
        self._found: dict[tuple[str, str], list[float]] = defaultdict(list)

    def note(self, side: str, name: str, value: float) -> None:
        """Keep one measurement; where there are several of one name, their median counts."""
        self._found[side, name].append(value)

    def value(self, side: str, name: str) -> float | None:
        """Return the median of what was measured; ``None`` where nothing was."""
        return middle(self._found.get((side, name), []))

    def _queues(self) -> list[str]:
        return [f"{self.rows.queue}{nth:04}" for nth in range(self.sizes.queues)]
