"""A database of its own for these tests, on the server of the test suite."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

import psycopg
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

T = TypeVar("T")
ALIAS = "scratch"
APP = "ultimate_jobs"
RELEASE_3_0 = "0001_initial"
DEADLINE_SECONDS = 20.0


class ScratchDatabase:
    """Reached by Django under ``ALIAS``, and by psycopg through connections of its own."""

    def __init__(self, name: str, conninfo: dict[str, Any]) -> None:
        self.name = name
        self._conninfo = {**conninfo, "dbname": name}
        self._session = self.connect()
        self._threads = ThreadPoolExecutor(max_workers=4)

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(**self._conninfo, autocommit=True)

    def sql(self, query: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run SQL on the test's own session, outside Django."""
        cursor = self._session.execute(query, params or None)
        return cursor.fetchall() if cursor.description else []

    def value(self, query: str, params: Sequence[Any] = ()) -> Any:
        return self.sql(query, params)[0][0]

    @cached_property
    def steps(self) -> list[str]:
        """Every migration, from the first to the last."""
        graph = self._executor().loader.graph
        leaf = graph.leaf_nodes(APP)[0]
        return [name for app, name in graph.forwards_plan(leaf) if app == APP]

    def migrate(self, target: str | None = "") -> None:
        """Migrate to a step; to the last by default, and to zero with ``None``."""
        name = self.steps[-1] if target == "" else target
        self._executor().migrate([(APP, name)])

    def start_migrate(self, target: str | None = "", *, lock_timeout: str = "0") -> Future[None]:
        """Migrate in a thread with a connection of its own."""

        def migrate() -> None:
            with connections[ALIAS].cursor() as cursor:
                cursor.execute("select set_config('lock_timeout', %s, false)", [lock_timeout])
            self.migrate(target)

        return self.start(migrate)

    def builder(self) -> int | None:
        """Return the backend whose concurrent build waits for another transaction."""
        found = self.sql(
            "select p.pid from pg_stat_progress_create_index p"
            " where p.datname = current_database() and pg_blocking_pids(p.pid) <> '{}'"
        )
        return int(found[0][0]) if found else None

    def waiting_for(self, table: str) -> int:
        """Return how many sessions wait for a lock on a table."""
        return int(
            self.value(
                "select count(*) from pg_locks where relation = %s::regclass and not granted",
                [table],
            )
        )

    def module(self, step: str) -> str:
        return f"{APP}.migrations.{step}"

    def wait_until(self, condition: Callable[[], bool], otherwise: str) -> None:
        """Poll a condition up to a deadline."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, otherwise
            time.sleep(0.002)

    def start(self, call: Callable[[], T]) -> Future[T]:
        def run() -> T:
            try:
                return call()
            finally:
                connections[ALIAS].close()

        return self._threads.submit(run)

    def applied(self) -> list[str]:
        recorder = MigrationRecorder(connections[ALIAS])
        return sorted(name for app, name in recorder.applied_migrations() if app == APP)

    def reset(self) -> None:
        """Remove every table and function; cheaper than another database."""
        self.sql("drop schema public cascade")
        self.sql("create schema public")

    def close(self) -> None:
        self._threads.shutdown()
        self._session.close()
        connections[ALIAS].close()

    def _executor(self) -> MigrationExecutor:
        return MigrationExecutor(connections[ALIAS])


@contextmanager
def scratch_database() -> Iterator[ScratchDatabase]:
    """Create a database, hand it out, and drop it."""
    conninfo = _conninfo()
    name = f"uj_mig_{os.getpid()}"
    with psycopg.connect(**conninfo, dbname="postgres", autocommit=True) as server:
        server.execute(f"create database {name} template template0")
        # No test here crashes the server, and a migration commits often.
        server.execute(f"alter database {name} set synchronous_commit = off")
        connections.settings[ALIAS] = {**connections["default"].settings_dict, "NAME": name}
        database = ScratchDatabase(name, conninfo)
        try:
            yield database
        finally:
            database.close()
            del connections[ALIAS]
            del connections.settings[ALIAS]
            server.execute(f"drop database {name} with (force)")


def _conninfo() -> dict[str, Any]:
    settings = connections["default"].settings_dict
    known = {
        "host": settings["HOST"] or settings["OPTIONS"].get("host"),
        "port": settings["PORT"] or settings["OPTIONS"].get("port"),
        "user": settings["USER"],
        "password": settings["PASSWORD"],
    }
    return {name: value for name, value in known.items() if value}
