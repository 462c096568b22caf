"""One page of jobs, newest first, read so that no page ever scans the table.

The primary key is a UUIDv7, so its index is the list in order. Where conditions apply that no index
answers, a page looks through a bounded number of jobs and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from ultimate_jobs.drivers import driver_for
from ultimate_jobs.models import Job
from ultimate_jobs.states import JobState

COUNT_CAP = 10_000
LOOK_THROUGH = 50_000

# The states with a partial index of their own, and the column that it begins with. Ordering by that
# column leaves the planner no way but through the index.
_INDEXED = {
    JobState.READY.value: "queue",
    JobState.DELAYED.value: "queue",
    JobState.SUSPENDED.value: "queue",
    JobState.RUNNING.value: "worker",
    JobState.DEAD.value: "queue",
}


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs, and what is honest to say of those that are not on the page.

    Attributes:
        before: asks for the next page; ``None`` where there is nothing older.
        count: how many match, on the first page; at ``COUNT_CAP`` it is a lower bound.
        looked_through: the page is of the newest so many jobs; ``None`` where it is of all.
    """

    rows: list[Job]
    before: UUID | None
    count: int | None
    looked_through: int | None

    @property
    def is_capped(self) -> bool:
        return self.count is not None and self.count >= COUNT_CAP


@dataclass(frozen=True, slots=True)
class _Source:
    """Which jobs to look at.

    Attributes:
        edge: the oldest of them, where that is not all there are.
        count: how many match, where that is known by now.
    """

    jobs: QuerySet[Job]
    edge: UUID | None = None
    count: int | None = None


def read_page(
    jobs: QuerySet[Job], conditions: Mapping[str, Any], *, before: UUID | None, size: int
) -> Page:
    """Return the page of matching jobs that are older than ``before``."""
    older = jobs if before is None else jobs.filter(id__lt=before)
    source = _source(jobs, older, conditions, size + 1)
    matching = source.jobs.filter(**conditions).order_by("-id")
    rows = list(matching[: size + 1])
    is_full = len(rows) > size
    return Page(
        rows=rows[:size],
        before=rows[size - 1].id if is_full else source.edge,
        count=None if before is not None else _count(source, matching, rows, is_full=is_full),
        looked_through=None if source.edge is None else LOOK_THROUGH,
    )


def _count(
    source: _Source, matching: QuerySet[Job], rows: list[Job], *, is_full: bool
) -> int | None:
    if not is_full:
        return len(rows)
    return source.count if source.count is not None else _capped(matching)


def _source(
    jobs: QuerySet[Job], older: QuerySet[Job], conditions: Mapping[str, Any], wanted: int
) -> _Source:
    state = conditions.get("state")
    if not conditions or "id" in conditions:
        return _Source(older)
    if state == JobState.DEAD.value and "queue" in conditions:
        # x_jobs_dead_idx is this list, in order.
        return _Source(older)
    if state not in _INDEXED:
        return _newest(older)
    in_state = jobs.filter(state=state).order_by(_INDEXED[state])[:COUNT_CAP]
    count = _capped(in_state)
    known = count if len(conditions) == 1 else None
    if count < COUNT_CAP:
        return _Source(older.filter(id__in=in_state.values("id")), count=known)
    if state == JobState.DEAD.value:
        return _Source(_dead_of_every_queue(older, conditions, wanted), count=known)
    return _newest(older)


def _newest(older: QuerySet[Job]) -> _Source:
    last = LOOK_THROUGH - 1
    edge = older.order_by("-id").values_list("id", flat=True)[last : last + 1].first()
    return _Source(older if edge is None else older.filter(id__gte=edge), edge=edge)


def _dead_of_every_queue(
    older: QuerySet[Job], conditions: Mapping[str, Any], wanted: int
) -> QuerySet[Job]:
    """Any number of dead jobs, however old: the newest of each queue, by x_jobs_dead_idx."""
    stats = driver_for(older.db).introspection.stats()
    dead = older.filter(**conditions).order_by("-id").values("id")
    newest = [dead.filter(queue=one.queue)[:wanted] for one in stats if one.dead]
    if len(newest) > 1:
        newest = [newest[0].union(*newest[1:], all=True).order_by("-id")[:wanted]]
    return older.filter(id__in=[row["id"] for rows in newest for row in rows])


def _capped(matching: QuerySet[Job]) -> int:
    """Count in an order that an index has: without one, a scan of the table looks cheap."""
    return matching.values("id")[:COUNT_CAP].count()
