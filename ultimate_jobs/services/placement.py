"""Where an enqueue is written: on the caller's own connection, so that it commits with its data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.drivers.vendors import POSTGRESQL
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
        DatabaseUnsupported: the alias that was named cannot hold what is staged.
    """
    home = driver.alias
    if alias is None:
        alias = _implied_alias(driver, job)
    if home is not None:
        return Placement(Way.DIRECT if alias in (None, home) else Way.STAGED, alias or home)
    if alias is not None and connections[alias].in_atomic_block:
        return Placement(Way.STAGED if driver.supports_outbox else Way.ON_COMMIT, alias)
    return Placement(Way.DIRECT, None)


def _implied_alias(driver: Driver, job: str) -> str | None:
    home, opened = driver.alias, open_connections()
    if driver.supports_outbox:
        # Elsewhere nothing can be staged, so there is nothing that the job could commit with.
        opened = [one for one in opened if one.vendor == POSTGRESQL]
    chosen = [one.alias for one in opened if _is_opened_by_the_caller(one)]
    if home in chosen:
        return home
    if len(chosen) > 1:
        raise EnqueueAliasAmbiguous(job=job, aliases=chosen)
    if chosen:
        return chosen[0]
    # Where only a TestCase holds blocks open, a queue in a database is written as in autocommit.
    return home if home is not None or not opened else opened[0].alias


def open_connections() -> list[BaseDatabaseWrapper]:
    """Return this thread's connections that are inside ``atomic()``."""
    return [one for one in connections.all(initialized_only=True) if one.in_atomic_block]


def _is_opened_by_the_caller(connection: BaseDatabaseWrapper) -> bool:
    # TestCase opens a block on every database it names, which is no choice of the caller's.
    return any(not getattr(block, "_from_testcase", False) for block in connection.atomic_blocks)
