"""Runs the named statements on one alias, and says in words when the schema does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, cast
from uuid import UUID

import psycopg
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from django.db.utils import DatabaseError, IntegrityError

from ultimate_jobs.drivers.vendors import require_postgresql
from ultimate_jobs.errors import JobsSchema
from ultimate_jobs.models.job import SUPERSEDED_KEY_INDEXES
from ultimate_jobs.sql import statement
from ultimate_jobs.types import ANY_TENANT, TenantScope

_MISSING = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
)


# Planned once per connection where the site allows it (prepare_threshold): what is sent so often
# that planning it counts, and has the same plan whatever its values are.
_PREPARED = frozenset(
    {"claims.claim", "claims.claim_line", "endings.ack", "enqueue.one", "wakeups.notify"}
)


class _Cursor(psycopg.Cursor[tuple[Any, ...]]):
    """Sends values apart from the text, and takes them in binary.

    Django's own cursor interpolates them, which for arrays of a thousand ids costs more than the
    statement itself.
    """

    def __init__(self, connection: psycopg.Connection[Any], *, prepare: bool) -> None:
        super().__init__(connection)
        self.format = psycopg.pq.Format.BINARY
        self._prepare = None if prepare else False

    def execute(self, query: Any, params: Any = None, **_: Any) -> _Cursor:
        return super().execute(query, params, prepare=self._prepare)

    def all_rows(self) -> list[tuple[Any, ...]]:
        # To ask for the description would build a list of columns for each statement.
        result = self.pgresult
        return self.fetchall() if result is not None and result.nfields else []


class Statements:
    """The named statements of ``sql/``, pinned to one alias so that no router reads a replica."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    @property
    def connection(self) -> BaseDatabaseWrapper:
        return connections[self.alias]

    def rows(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows, or an empty list where it returns none.

        Raises:
            JobsSchema: the database lacks what this release needs, or keeps an index that it
                replaced.
            DatabaseUnsupported: it is no PostgreSQL.
        """
        with schema_errors(self.alias), self._cursor(name) as cursor:
            cursor.execute(statement(name), params)
            return cast(list[tuple[Any, ...]], cursor.all_rows())

    def _cursor(self, name: str) -> CursorWrapper:
        connection: Any = self.connection
        connection.validate_thread_sharing()
        connection.ensure_connection()
        with connection.wrap_database_errors:
            cursor = _Cursor(connection.connection, prepare=name in _PREPARED)
        if connection.queries_logged:
            return cast(CursorWrapper, connection.make_debug_cursor(cursor))
        return cast(CursorWrapper, connection.make_cursor(cursor))


@contextmanager
def schema_errors(alias: str) -> Iterator[None]:
    """Turn the database's complaint about a missing or superseded object into ``JobsSchema``.

    Raises:
        DatabaseUnsupported: the database is no PostgreSQL, whose complaints say nothing.
    """
    require_postgresql(alias)
    try:
        yield
    except IntegrityError as error:
        constraint = _constraint(error)
        if constraint not in SUPERSEDED_KEY_INDEXES:
            raise
        detail = f"the superseded index {constraint} is still enforced"
        raise JobsSchema(detail=detail, alias=alias) from error
    except DatabaseError as error:
        cause = error.__cause__
        if isinstance(cause, psycopg.errors.InvalidColumnReference):
            detail = "the unique index of live keys is missing"
        elif isinstance(cause, _MISSING):
            detail = str(cause).split("\n", 1)[0]
        else:
            raise
        raise JobsSchema(detail=detail, alias=alias) from error


def _constraint(error: IntegrityError) -> str | None:
    cause = error.__cause__
    return cause.diag.constraint_name if isinstance(cause, psycopg.Error) else None


def uuids(values: Iterable[UUID]) -> str:
    """Return an array of ids as PostgreSQL reads it: psycopg adapts a list value by value."""
    return "{" + ",".join([value.hex for value in values]) + "}"


def numbers(values: Iterable[int]) -> str:
    """Return an array of whole numbers as PostgreSQL reads it."""
    return "{" + ",".join(map(str, values)) + "}"


def texts(values: Iterable[str | None]) -> str:
    """Return an array of texts as PostgreSQL reads it; each different one is quoted once."""
    quoted: dict[str | None, str] = {None: "NULL"}
    parts = []
    for value in values:
        part = quoted.get(value)
        if part is None:
            escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
            part = quoted[value] = f'"{escaped}"'
        parts.append(part)
    return "{" + ",".join(parts) + "}"


def moments(values: Iterable[datetime | None]) -> str:
    """Return an array of instants as PostgreSQL reads it."""
    return texts(None if value is None else value.isoformat() for value in values)


def scope(tenant: TenantScope) -> dict[str, Any]:
    """Return the two parameters by which statements restrict to a tenant."""
    if tenant is ANY_TENANT:
        return {"any_tenant": True, "tenant": None}
    return {"any_tenant": False, "tenant": tenant}
