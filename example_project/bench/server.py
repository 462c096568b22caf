"""The server that is measured: how to reach it, whether it is free, and what it counts itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.utils import DatabaseError, InterfaceError
from psycopg.conninfo import make_conninfo

from example_project.bench.jobs import NAMES
from ultimate_jobs.errors import ArgumentInvalid

# Any constant: the number by which benches know each other's lock.
LOCK = 0x756A_626E_6368

OTHERS_LIVE = """
select count(*) from (
    select from x_jobs
    where state in ('ready', 'delayed', 'running', 'suspended') and name <> all(%s)
    limit 1000) live
"""

LIVE_WORKERS = """
select count(*) from x_job_leases where kind = 'worker' and expires_at > x_now()
"""

COUNTERS = """
select xact_commit, tup_inserted, tup_updated from pg_stat_database
where datname = current_database()
"""


@dataclass(frozen=True, slots=True)
class Counters:
    """What the server itself counted in this database: commits, and rows written."""

    commits: int
    inserts: int
    updates: int

    def since(self, earlier: Counters) -> Counters:
        return Counters(
            self.commits - earlier.commits,
            self.inserts - earlier.inserts,
            self.updates - earlier.updates,
        )


def query(sql: str, parameters: Sequence[Any] | dict[str, Any] | None = None) -> tuple[Any, ...]:
    """Run a statement on Django's connection and return its first row."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return (cursor.fetchone() or ()) if cursor.description else ()


def conninfo() -> str:
    """Return how psycopg reaches the database that Django is connected to."""
    connection.ensure_connection()
    info = connection.connection.info
    password = {"password": info.password} if info.password else {}
    return make_conninfo(info.dsn, **password)


def counters() -> Counters:
    """Return the server's counters; a process adds its own at its end at the latest."""
    query("select pg_stat_clear_snapshot()")
    return Counters(*query(COUNTERS))


def wal_position() -> int:
    """Return how many bytes of WAL the server has written in its life."""
    return int(query("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")[0])


def refuse_other_databases() -> None:
    """Refuse what has neither these tables nor these counters.

    Raises:
        ArgumentInvalid: the database is not PostgreSQL.
    """
    if connection.vendor != "postgresql":
        raise ArgumentInvalid(
            argument="the database",
            problem=f"is {connection.vendor}, and the bench measures PostgreSQL only",
            fix="export DATABASE_URL=postgresql://user@localhost:5432/name",
        )


def refuse_company() -> None:
    """Refuse to measure others, and to be measured with them.

    Raises:
        ArgumentInvalid: jobs of others are live, or a worker serves this database.
    """
    jobs, workers = query(OTHERS_LIVE, [NAMES])[0], query(LIVE_WORKERS)[0]
    if jobs or workers:
        problem = (
            f"has {jobs:,} live jobs of others and {workers} live workers (a killed one counts "
            "until its lease ends), which the figures would be of"
        )
        raise ArgumentInvalid(
            argument="the database", problem=problem, fix="manage.py bench --quick --force"
        )


def renew_connection() -> None:
    """Leave the connection, which may have been interrupted in the middle of a statement.

    Its session is ended too: the statement would go on and commit after everything was removed.
    """
    session = connection.connection.info.backend_pid if connection.connection else None
    connection.close()
    if session:
        query("select pg_terminate_backend(%s, 5000)", [session])


@contextmanager
def one_bench_at_a_time() -> Iterator[None]:
    """Hold the bench's lock.

    Raises:
        ArgumentInvalid: another bench holds it.
    """
    if not query("select pg_try_advisory_lock(%s)", [LOCK])[0]:
        raise ArgumentInvalid(
            argument="the database",
            problem="is being measured by another bench; begin when that has ended",
            fix="manage.py bench --quick",
        )
    try:
        yield
    finally:
        # Where the connection is gone, the lock went with it.
        with suppress(DatabaseError, InterfaceError):
            query("select pg_advisory_unlock(%s)", [LOCK])
