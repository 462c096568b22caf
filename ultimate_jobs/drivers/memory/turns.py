"""The order of a claim in memory: by priority, between tenants in rotation, then by age."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from uuid import UUID

from ultimate_jobs.drivers.memory.rows import Row


class Turns:
    """When a tenant of a priority was last served."""

    def __init__(self) -> None:
        self._served: dict[tuple[int, str | None], int] = {}
        self._count = 0

    def last(self, priority: int, tenant: str | None) -> int:
        return self._served.get((priority, tenant), 0)

    def note(self, row: Row) -> None:
        self._count += 1
        self._served[row.priority, row.tenant] = self._count


def in_turn(due: Iterable[Row], *, limit: int, turns: Turns | None = None) -> list[Row]:
    """Return at most ``limit`` of the due rows in the order in which they are to run."""
    memory = Turns() if turns is None else turns
    levels: dict[int, dict[str | None, deque[Row]]] = defaultdict(lambda: defaultdict(deque))
    for row in sorted(due, key=_age):
        levels[row.priority][row.tenant].append(row)
    chosen: list[Row] = []
    for priority in sorted(levels, reverse=True):
        waiting = levels[priority]
        while waiting and len(chosen) < limit:
            tenant = min(
                waiting, key=lambda one: (memory.last(priority, one), _age(waiting[one][0]))
            )
            row = waiting[tenant].popleft()
            memory.note(row)
            chosen.append(row)
            if not waiting[tenant]:
                del waiting[tenant]
    return chosen


def _age(row: Row) -> tuple[int, UUID]:
    return (row.due_at, row.id)
