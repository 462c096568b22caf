"""Which finished jobs retention looks at, and one batch of removing them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from uuid import UUID

from ultimate_jobs import conf
from ultimate_jobs.conf import RetentionOptions
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.ids import FIRST_ID, LAST_ID, first_id_at
from ultimate_jobs.records import Pruned

# How many rows one statement looks at; it removes no more than these.
BATCH = 1000
# Most jobs end within so long of their enqueue, so ids of that age are worth the first look.
SLACK = timedelta(hours=1)
# How far back a process begins that knows nothing of the sweeps before it.
FIRST_LOOK = timedelta(days=1)
# No clock is ahead by more: an id beyond it was not made from a time.
AHEAD = timedelta(days=1)
NOTHING = RetentionOptions(completed_ms=None, cancelled_ms=None, dead_ms=None)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Ids to walk, in order, after the first up to and with the last."""

    keep: RetentionOptions
    after: UUID
    through: UUID


class Frontier:
    """How far the sweeps of this process have come.

    Each period has a cursor of its own, so that no sweep reads again what an earlier one passed. A
    job that ended long after its enqueue is left to ``everything``, as is an id of another release.
    """

    def __init__(self) -> None:
        self._reached: dict[int, UUID] = {}

    def advance(self, keep: RetentionOptions, now: datetime) -> list[Stretch]:
        """Return the stretches that have become old since the last call, and count them as seen."""
        return [
            Stretch(_only(keep, period), after, through)
            for period in _periods(keep)
            for after, through in self._advance(period, now)
        ]

    def _advance(self, period: int, now: datetime) -> Iterator[tuple[UUID, UUID]]:
        edge = now - timedelta(milliseconds=period) - SLACK
        through = first_id_at(edge)
        after = self._reached.get(period, first_id_at(edge - FIRST_LOOK))
        if after < through:
            self._reached[period] = through
            yield after, through


def everything(keep: RetentionOptions, now: datetime) -> list[Stretch]:
    """Return all ids but those that tell of a time too young: nothing there can be old.

    Rows of 3.0.0 may have ids of any kind; most of those lie beyond today.
    """
    periods = _periods(keep)
    if not periods:
        return []
    shortest = timedelta(milliseconds=periods[0])
    return [
        Stretch(keep, FIRST_ID, first_id_at(now - shortest)),
        Stretch(keep, first_id_at(now + AHEAD), LAST_ID),
    ]


def prune_batch(driver: Driver, stretch: Stretch) -> tuple[Pruned, Stretch | None]:
    """Remove one batch; return it, and what is left of the stretch."""
    pruned = driver.retention.prune(
        stretch.keep, after=stretch.after, through=stretch.through, limit=BATCH
    )
    return pruned, _rest(stretch, pruned)


def prune(driver: Driver, *, dry_run: bool, sleep: Callable[[float], None] = time.sleep) -> Pruned:
    """Walk everything once, at an operator's wish; return what was, or would be, removed.

    Args:
        sleep: pauses for so many seconds between two batches.
    """
    act = driver.retention.survey if dry_run else driver.retention.prune
    total = Pruned()
    for whole in everything(conf.settings().retention, driver.introspection.now()):
        stretch: Stretch | None = whole
        while stretch is not None:
            began = time.monotonic()
            pruned = act(stretch.keep, after=stretch.after, through=stretch.through, limit=BATCH)
            total, stretch = add(total, pruned), _rest(stretch, pruned)
            sleep(pause_after(time.monotonic() - began))
    return total


def pause_after(seconds: float) -> float:
    """Return how long to pause after a batch that took so long: it sets the share of the server."""
    return min(1.0, max(0.01, seconds * 2))


def add(first: Pruned, second: Pruned) -> Pruned:
    """Return the sum of two batches."""
    return Pruned(
        completed=first.completed + second.completed,
        cancelled=first.cancelled + second.cancelled,
        dead=first.dead + second.dead,
        events=first.events + second.events,
        steps=first.steps + second.steps,
    )


def _rest(stretch: Stretch, pruned: Pruned) -> Stretch | None:
    return None if pruned.last is None else replace(stretch, after=pruned.last)


def _periods(keep: RetentionOptions) -> list[int]:
    given = {getattr(keep, one.name) for one in fields(keep)}
    return sorted(period for period in given if period is not None)


def _only(keep: RetentionOptions, period: int) -> RetentionOptions:
    """Return the states that are kept for this long; all others for ever."""
    same = {one.name: period for one in fields(keep) if getattr(keep, one.name) == period}
    return replace(NOTHING, **same)
