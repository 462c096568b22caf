"""Where an enqueue is written: on the caller's own connection, so that it commits with its data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from django.db import connections

from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.errors import EnqueueAliasAmbiguous


class Way(Enum):
    """How a request reaches its queue."""

    DIRECT = "direct"
    STAGED = "staged"
    ON_COMMIT = "on_commit"


@dataclass(frozen=True, slots=True)
class Placement:
    """The way, and the alias whose transaction decides."""

    way: Way
    alias: str | None


def place(driver: Driver, *, job: str, alias: str | None) -> Placement:
    """Decide for one call.

    Args:
        alias: what the caller named with ``using(alias=)``.

    Raises:
        EnqueueAliasAmbiguous: two other aliases have an open transaction.
    """
    home = driver.alias
    if alias is None:
        alias = _implied_alias(home, job)
    if home is not None:
        return Placement(Way.DIRECT if alias in (None, home) else Way.STAGED, alias or home)
    if alias is not None and connections[alias].in_atomic_block:
        return Placement(Way.STAGED if driver.supports_outbox else Way.ON_COMMIT, alias)
    return Placement(Way.DIRECT, None)


def _implied_alias(home: str | None, job: str) -> str | None:
    if home is not None and connections[home].in_atomic_block:
        return home
    others = [
        connection.alias
        for connection in connections.all(initialized_only=True)
        if connection.in_atomic_block and connection.alias != home
    ]
    if len(others) > 1:
        raise EnqueueAliasAmbiguous(job=job, aliases=others)
    return others[0] if others else home
