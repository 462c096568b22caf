"""Which databases can hold the tables of this app: PostgreSQL, and no other."""

from __future__ import annotations

from django.db import connections

from ultimate_jobs.errors import DatabaseUnsupported

POSTGRESQL = "postgresql"


def require_postgresql(alias: str, *, staging: bool = False) -> None:
    """Refuse another database before a statement reaches it; connects to none.

    Args:
        staging: the alias was to hold an enqueue of its transaction, not the queue.

    Raises:
        DatabaseUnsupported: the alias is no PostgreSQL.
    """
    vendor = connections[alias].vendor
    if vendor != POSTGRESQL:
        fix = _named_in_the_call() if staging else _queue_elsewhere(alias)
        raise DatabaseUnsupported(alias=alias, vendor=vendor, fix=fix)


def _named_in_the_call() -> str:
    others = _able()
    return f'use .using(alias="{others[0]}")' if others else "leave .using(alias=...) out"


def _queue_elsewhere(alias: str) -> str:
    others = _able()
    if others:
        return f'set ULTIMATE_JOBS = {{"DATABASE": "{others[0]}"}} in the settings'
    return f'set "ENGINE": "django.db.backends.postgresql" in DATABASES["{alias}"]'


def _able() -> list[str]:
    return sorted(one for one in connections if connections[one].vendor == POSTGRESQL)
