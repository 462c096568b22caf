"""What keeps one waiting job from being claimed, beyond its own row: locks, lanes and limits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.errors import JobUnknown
from ultimate_jobs.limits import Scope
from ultimate_jobs.records import JobRecord
from ultimate_jobs.services.limits import need_of
from ultimate_jobs.slots import SlotHolder


@dataclass(frozen=True, slots=True)
class FullLimit:
    """A limit of which nothing is free.

    Attributes:
        jobs: who holds it, the longest first.
        free_at: when the first slot of it expires if nobody gives one back.
    """

    scope: Scope
    jobs: tuple[UUID, ...]
    free_at: datetime


@dataclass(frozen=True, slots=True)
class Obstacles:
    """What stands in a job's way now.

    Attributes:
        is_locked: a transaction that is open holds its row.
        behind: the job of its serial key that comes first.
    """

    is_locked: bool = False
    behind: UUID | None = None
    full: tuple[FullLimit, ...] = ()


def obstacles(driver: Driver, job: JobRecord) -> Obstacles:
    """Return what stands in a waiting job's way; its limits are those declared in this process."""
    is_locked, behind = driver.slots.obstacles(job.id)
    return Obstacles(is_locked, behind, _full(driver, job))


def _full(driver: Driver, job: JobRecord) -> tuple[FullLimit, ...]:
    try:
        scopes = need_of(job).scopes
    except JobUnknown:
        return ()
    if not scopes:
        return ()
    holders: dict[str, list[SlotHolder]] = {}
    for holder in driver.slots.holders([scope.name for scope in scopes]):
        holders.setdefault(holder.name, []).append(holder)
    return tuple(
        FullLimit(
            scope=scope,
            jobs=tuple(one.job for one in held if one.job is not None),
            free_at=min(one.expires_at for one in held),
        )
        for scope in scopes
        if len(held := holders.get(scope.name, [])) >= scope.most
    )
