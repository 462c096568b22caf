"""Wake-ups on PostgreSQL: NOTIFY after the commit, and a session of its own that listens."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import Any
from weakref import WeakSet

import psycopg
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import OperationalError
from psycopg.conninfo import conninfo_to_dict

from ultimate_jobs.drivers.postgres.statements import Statements
from ultimate_jobs.errors import SettingInvalid
from ultimate_jobs.sql import statement

logger = logging.getLogger("ultimate_jobs.wakeups")

# Seconds. Without these a listener does not notice that its server is gone: it only ever reads.
PATIENT = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
# What Django hands to psycopg for its own cursors.
_DJANGOS_OWN = ("cursor_factory", "context")
# Another host has a port of its own: half of one place and half of another is nowhere.
_PLACE = {"host", "hostaddr", "port", "service"}
# Where a connection keeps what its open transaction has announced.
_PENDING = "_ultimate_jobs_announcements"

# Seconds. Who was told of a queue looks once more this much later (see the listener), so within
# them nothing new need be said: a NOTIFY after each of a thousand commits a second is a third of
# their cost.
QUIET = 0.010

# When this process last told of a queue, by alias and queue, on the monotonic clock.
_told: dict[tuple[str, str], float] = {}

# The aliases on which the last NOTIFY failed, so that each outage is told once.
_failing: set[str] = set()


class PostgresWakeups:
    """Announces on the caller's own connection, and listens on none of Django's."""

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def announce(self, queues: Collection[str]) -> None:
        connection = connections[self._alias]
        if not connection.in_atomic_block:
            # Without autocommit the enqueue has not committed, and nobody says when it will.
            if connection.autocommit:
                _notify(self._alias, queues)
            return
        pending: WeakSet[Announcement] = vars(connection).setdefault(_PENDING, WeakSet())
        savepoints = frozenset(connection.savepoint_ids) - {None}
        # One that was made in the same savepoint, or around it, is undone only together with ours.
        told = {queue for one in pending if one.savepoints <= savepoints for queue in one.queues}
        if new := frozenset(queues) - told:
            one = Announcement(connection, new, savepoints)
            pending.add(one)
            connection.on_commit(one.send, robust=True)

    def subscription(self, address: str | None) -> PostgresSubscription:
        return PostgresSubscription(self._alias, address)


class Announcement:
    """What one transaction has to tell once it has committed; Django's callbacks alone hold it.

    So it ends with them at a rollback, also with that of a savepoint.
    """

    def __init__(
        self, connection: BaseDatabaseWrapper, queues: frozenset[str], savepoints: frozenset[str]
    ) -> None:
        self.queues = queues
        self.savepoints = savepoints
        self._connection = connection

    def send(self) -> None:
        """Tell all that the transaction announced at once; its other callbacks find nothing."""
        pending = vars(self._connection).pop(_PENDING, ())
        if queues := {queue for one in pending for queue in one.queues}:
            _notify(self._connection.alias, queues)


class PostgresSubscription:
    """A session that listens.

    Attributes:
        is_pooled: the session is not with the server itself but with a pooler before it.
    """

    def __init__(self, alias: str, address: str | None) -> None:
        self._alias = alias
        self._given = _parsed(address) if address else {}
        self._session: psycopg.Connection[Any] | None = None
        self.is_pooled = False

    def open(self) -> None:
        wrapper = connections[self._alias]
        with wrapper.wrap_database_errors:
            dropped = {*_DJANGOS_OWN, *(_PLACE if _PLACE & self._given.keys() else ())}
            djangos = wrapper.get_connection_params()
            params = {name: djangos[name] for name in djangos if name not in dropped}
            session = psycopg.connect(**{**PATIENT, **params, **self._given, "autocommit": True})
            self._session = session
            row = session.execute(statement("wakeups.backend")).fetchone()
            self.is_pooled = row is None or row[0] != session.info.backend_pid

    def listen(self) -> None:
        with connections[self._alias].wrap_database_errors:
            self._opened().execute(statement("wakeups.listen"))

    def wait(self, seconds: float) -> frozenset[str]:
        with connections[self._alias].wrap_database_errors:
            heard = self._opened().notifies(timeout=seconds, stop_after=1)
            return frozenset(one.payload for one in heard)

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _opened(self) -> psycopg.Connection[Any]:
        if self._session is None:
            raise OperationalError("the session that listens is closed")
        return self._session


def _parsed(address: str) -> dict[str, Any]:
    try:
        return dict(conninfo_to_dict(address))
    except psycopg.Error:
        # What libpq says of it quotes it, with its password.
        raise SettingInvalid(
            key="LISTEN",
            problem="cannot be read as a connection string",
            example='"host=127.0.0.1 port=5432"',
        ) from None


def _notify(alias: str, queues: Collection[str]) -> None:
    """Send the word; the jobs are stored, so whatever goes wrong here fails nobody."""
    began = time.monotonic()
    news = [queue for queue in queues if began - _told.get((alias, queue), -QUIET) >= QUIET]
    if not news:
        return
    try:
        Statements(alias).rows("wakeups.notify", queues=sorted(news))
    # Not only the database's errors: a site's own execute wrappers may refuse in their own words.
    except Exception as error:
        if alias not in _failing:
            _failing.add(alias)
            logger.warning(
                "jobs.wakeup.failed: workers find the work by polling (%s)",
                type(error).__name__,
                extra={"alias": alias},
            )
        return
    # The beginning counts: whoever heard it has looked again no sooner than that much later.
    _told.update(((alias, queue), began) for queue in news)
    _failing.discard(alias)
