"""Django's connections in a worker: a body finds and leaves them as a request would."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

import psycopg
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

# A connection past its CONN_MAX_AGE outlives its body by this much, so that a busy thread does not
# reconnect for each body: at the default age of 0 that would cost more than most bodies.
KEEP_SECONDS = 1.0
# Seconds that the server may take to accept the cancellation of a query.
CANCEL_SECONDS = 5.0

_OPEN = (TransactionStatus.ACTIVE, TransactionStatus.INTRANS, TransactionStatus.INERROR)


def open_blocks() -> frozenset[str]:
    """Return the aliases on which this thread is inside ``atomic()``, as it is in tests."""
    return frozenset(one.alias for one in _mine() if one.in_atomic_block)


def tidy(before: frozenset[str] = frozenset()) -> list[str]:
    """Clean up behind a body, and return the aliases on which it left a transaction open.

    Such a transaction is rolled back and its connection closed.

    Args:
        before: what ``open_blocks()`` said before the body; those are left alone.
    """
    left = []
    for connection in _mine():
        connection.queries_log.clear()
        if connection.alias in before:
            continue
        if _is_open(connection):
            left.append(connection.alias)
            discard(connection.alias)
        else:
            _close_if_due(connection)
    return left


def left_open(but: frozenset[str]) -> list[str]:
    """Return the aliases on which a transaction is open, apart from some."""
    return [one.alias for one in _mine() if one.alias not in but and _is_open(one)]


def close_idle() -> None:
    """Close what is past its CONN_MAX_AGE, now that this thread has nothing to do."""
    for connection in _mine():
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


def discard(alias: str | None) -> None:
    """Drop this thread's connection in whatever state it is; the next use connects anew."""
    for connection in _mine():
        if connection.alias == alias:
            # Whatever its backend raises: it is broken already.
            with suppress(Exception):
                connection.close()
            # A wrapper closed inside atomic() refuses to reconnect, so it goes as a whole.
            del connections[alias]


def discard_all(but: frozenset[str]) -> None:
    """Drop every connection of this thread, in whatever state it is, but those of some aliases.

    For a body that was interrupted between any two of its instructions.
    """
    for connection in _mine():
        if connection.alias not in but:
            discard(connection.alias)


def opened() -> list[BaseDatabaseWrapper]:
    """Return this thread's connections, for another thread to call ``cancel_query`` with."""
    return list(_mine())


def cancel_query(connection: BaseDatabaseWrapper) -> None:
    """Cancel what a connection of another thread runs at this moment, if anything."""
    driver_connection = connection.connection
    if not isinstance(driver_connection, psycopg.Connection):
        return
    if driver_connection.info.transaction_status is not TransactionStatus.ACTIVE:
        return
    # It may end meanwhile, or its server be gone: then nothing is left to cancel.
    with suppress(Exception):
        driver_connection.cancel_safe(timeout=CANCEL_SECONDS)


def close_all() -> None:
    """Close every connection of this thread, at its end."""
    for connection in _mine():
        discard(connection.alias)


def _mine() -> Sequence[BaseDatabaseWrapper]:
    return connections.all(initialized_only=True)


def _is_open(connection: BaseDatabaseWrapper) -> bool:
    if connection.connection is None:
        return False
    if connection.in_atomic_block:
        return True
    # A body may also have said BEGIN itself, or switched autocommit off.
    info = getattr(connection.connection, "info", None)
    return getattr(info, "transaction_status", None) in _OPEN


def _close_if_due(connection: BaseDatabaseWrapper) -> None:
    due = connection.close_at
    if due is None or time.monotonic() >= due + KEEP_SECONDS:
        connection.close_if_unusable_or_obsolete()
        return
    connection.close_at = None
    connection.close_if_unusable_or_obsolete()
    connection.close_at = due
