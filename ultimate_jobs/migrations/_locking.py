"""Takes a table lock in short tries, so that nobody queues up behind a migration that waits."""

import time

from django.db import OperationalError, transaction
from django.db.migrations.operations.base import Operation

from ultimate_jobs.errors import MigrationLocked

# A statement that waits for ACCESS EXCLUSIVE makes every later reader and writer wait behind it.
TRY_SECONDS = 1.0
PAUSE_SECONDS = 0.5
TRIES = 40

LOCK_NOT_AVAILABLE = "55P03"
HOLDERS = """
select array_agg(distinct l.pid order by l.pid)
from pg_locks l
where l.relation = any(%s::regclass[]) and l.granted and l.pid <> pg_backend_pid()
"""


def under_lock(mode, *model_names, operations):
    """Return the operations with the lock taken first, whichever way they are run."""
    return [
        TakeLock(mode, model_names, forwards=True),
        *operations,
        TakeLock(mode, model_names, forwards=False),
    ]


class TakeLock(Operation):
    """Locks several tables at once, or none: a lock that waits for another holds nothing."""

    reversible = True

    def __init__(self, mode, model_names, *, forwards):
        self.mode = mode
        self.model_names = tuple(model_names)
        self.forwards = forwards

    def deconstruct(self):
        return (
            self.__class__.__name__,
            [self.mode, self.model_names],
            {"forwards": self.forwards},
        )

    def state_forwards(self, app_label, state):
        pass

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        if self.forwards:
            self._take(app_label, schema_editor, from_state)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        if not self.forwards:
            self._take(app_label, schema_editor, from_state)

    def describe(self):
        return f"Lock {', '.join(self.model_names)} in {self.mode} mode"

    def _take(self, app_label, schema_editor, state):
        alias = schema_editor.connection.alias
        models = [state.apps.get_model(app_label, name) for name in self.model_names]
        tables = [m._meta.db_table for m in models if self.allow_migrate_model(alias, m)]
        if not tables:
            return
        names = ", ".join(schema_editor.quote_name(table) for table in tables)
        timeout = f"SET LOCAL lock_timeout = '{TRY_SECONDS:g}s'"
        lock = f"LOCK TABLE {names} IN {self.mode} MODE"
        if schema_editor.collect_sql:
            schema_editor.execute(timeout)
            schema_editor.execute(lock)
            return
        for attempt in range(TRIES):
            if attempt:
                time.sleep(PAUSE_SECONDS)
            if _try(schema_editor, timeout, lock):
                return
        with schema_editor.connection.cursor() as cursor:
            cursor.execute(HOLDERS, [tables])
            (pids,) = cursor.fetchone()
        raise MigrationLocked(tables=tables, mode=self.mode, tries=TRIES, holders=pids or [])


def _try(schema_editor, timeout, lock):
    try:
        # The savepoint's end gives back whatever of the lock was got.
        with transaction.atomic(using=schema_editor.connection.alias):
            schema_editor.execute(timeout)
            schema_editor.execute(lock)
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) != LOCK_NOT_AVAILABLE:
            raise
        return False
    return True
