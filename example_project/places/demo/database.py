"""The demo's database: reached, held by one demo at a time, and brought to today's tables."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.core.management import call_command
from django.db import connection
from django.db.utils import DatabaseError, InterfaceError, NotSupportedError, OperationalError

from example_project.places.demo.console import Console
from ultimate_jobs.errors import DatabaseUnavailable

# Any constant: the number by which demos know each other's lock.
LOCK = 0x756A_6465_6D6F
LOOK_SECONDS = 0.5


@contextmanager
def reachable_database() -> Iterator[None]:
    """Connect, and say in words when the database does not answer, now or later.

    Raises:
        DatabaseUnavailable: nobody answers, or not as a PostgreSQL that Django supports.
    """
    try:
        connection.ensure_connection()
        yield
    except (OperationalError, InterfaceError, NotSupportedError) as error:
        detail = " ".join(str(error).split()) or type(error).__name__
        raise DatabaseUnavailable(alias=connection.alias, detail=detail) from error


@contextmanager
def one_demo_at_a_time(console: Console) -> Iterator[None]:
    """Hold the demo's lock: a run cancels what earlier runs left, which must not still run.

    Asks again and again rather than waiting inside a statement: a waiting statement would hold up
    the concurrent index builds of the other demo's migrations.
    """
    said = False
    while not _query("select pg_try_advisory_lock(%s)"):
        if not said:
            console.say("Another demo works on this database; this one begins when it ends.")
            said = True
        time.sleep(LOOK_SECONDS)
    try:
        yield
    finally:
        # Where the connection is gone, the lock went with it.
        with suppress(DatabaseError, InterfaceError):
            _query("select pg_advisory_unlock(%s)")


def migrate() -> None:
    """Bring the database to the tables of this release."""
    call_command("migrate", interactive=False, verbosity=0)


def _query(sql: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(sql, [LOCK])
        return bool(cursor.fetchone()[0])
