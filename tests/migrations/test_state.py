"""The models and the migrations say the same, and the migrations keep to their own rules."""

from __future__ import annotations

import ast
import importlib
import inspect
import io
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from tests.migrations.database import ALIAS, APP, ScratchDatabase
from ultimate_jobs.errors import DatabaseUnsupported
from ultimate_jobs.sql import statement

STEPS = sorted(name for app, name in MigrationLoader(None).disk_migrations if app == APP)


def test_makemigrations_finds_nothing_to_do(settled: ScratchDatabase) -> None:
    """The models declare what the migrations make."""
    call_command("makemigrations", APP, check=True, dry_run=True, verbosity=0)


@pytest.mark.parametrize("step", STEPS)
def test_file_says_which_lock_it_takes(step: str) -> None:
    """The first lines name the decision, the lock, and for how long."""
    module = importlib.import_module(f"{APP}.migrations.{step}")
    said = module.__doc__ or ""

    first, _, rest = said.partition("\n\n")
    assert first.endswith(".")
    assert "\n" not in first
    assert rest.startswith("Lock: ")


@pytest.mark.parametrize("step", STEPS)
def test_file_with_a_concurrent_operation_is_not_atomic(step: str) -> None:
    """A concurrent build cannot run in a transaction, and stands alone."""
    module = importlib.import_module(f"{APP}.migrations.{step}")
    concurrent = any(
        type(operation).__module__.endswith("_concurrent")
        for operation in module.Migration.operations
    )

    assert not concurrent or module.Migration.atomic is False


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
def test_sqlmigrate_prints_every_step_and_changes_nothing(
    settled: ScratchDatabase, backwards: bool
) -> None:
    """A reviewer reads the SQL of any step from a database at any other."""
    before = settled.sql("select oid, relname from pg_class order by 1")

    for step in STEPS:
        out = io.StringIO()
        call_command(
            "sqlmigrate", APP, step, backwards=backwards, database=ALIAS, stdout=out, no_color=True
        )
        assert out.getvalue()

    assert settled.sql("select oid, relname from pg_class order by 1") == before


def test_operations_can_be_written_again() -> None:
    """Squashing serialises every operation, so each says how it was made."""
    for step in STEPS:
        module = importlib.import_module(f"{APP}.migrations.{step}")
        for operation in module.Migration.operations:
            _, args, kwargs = operation.deconstruct()
            assert type(operation)(*args, **kwargs).describe() == operation.describe()


def test_clock_is_the_one_of_the_package(settled: ScratchDatabase) -> None:
    """x_now() in the database is x_now() in the SQL file, and is usable as an index bound."""
    body = settled.value("select prosrc from pg_proc where proname = 'x_now'")
    volatile = settled.value("select provolatile::text from pg_proc where proname = 'x_now'")

    assert body in statement("triggers.clock")
    assert volatile == "s"


@pytest.mark.parametrize(
    ("table", "option"),
    [
        ("x_jobs", "fillfactor=70"),
        ("x_jobs", "autovacuum_vacuum_scale_factor=0.01"),
        ("x_job_leases", "fillfactor=80"),
        ("x_outbox", "fillfactor=70"),
    ],
)
def test_hot_table_has_its_storage(current: ScratchDatabase, table: str, option: str) -> None:
    """Forwards sets it, backwards gives the server's own back."""
    options = "select reloptions from pg_class where relname = %s"
    assert option in current.value(options, [table])

    current.migrate("0006_validate_checks")

    assert current.value(options, [table]) is None


def test_migrate_other_database_is_refused_before_the_first_table(
    django_db_blocker: Any, tmp_path: Any
) -> None:
    """SQLite is refused in words, and nothing is left behind."""
    connections.settings["lite"] = {
        **connections["default"].settings_dict,
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(tmp_path / "lite.db"),
        "OPTIONS": {},
    }
    try:
        with django_db_blocker.unblock():
            with pytest.raises(DatabaseUnsupported) as refused:
                MigrationExecutor(connections["lite"]).migrate([(APP, STEPS[-1])])
            tables = connections["lite"].introspection.table_names()
    finally:
        connections["lite"].close()
        del connections["lite"]
        del connections.settings["lite"]

    assert "sqlite" in refused.value.cause
    assert [name for name in tables if name.startswith("x_")] == []


class KeepsOut:
    """A router that keeps this app out of a database."""

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if app_label == APP else None


def test_migrate_where_a_router_says_no_does_nothing(empty: ScratchDatabase, settings: Any) -> None:
    """The fix of the refusal works: every step passes and makes nothing, both ways."""
    settings.DATABASE_ROUTERS = [f"{__name__}.KeepsOut"]

    empty.migrate()
    made = empty.sql("select relname from pg_class where relname ~ '^x_'")
    functions = empty.sql("select proname from pg_proc where proname ~ '^(x_now|pgtrigger)'")
    empty.migrate(None)

    assert made == []
    assert functions == []


def test_migrations_import_no_code_that_moves() -> None:
    """What a migration says may not change when a model or a state does."""
    for step in STEPS:
        module = importlib.import_module(f"{APP}.migrations.{step}")
        tree = ast.parse(inspect.getsource(module))
        imported = {
            node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(APP)
        }
        assert imported <= {
            f"{APP}.sql",
            f"{APP}.migrations._concurrent",
            f"{APP}.migrations._locking",
            f"{APP}.migrations._storage",
            f"{APP}.migrations._vendor",
        }
