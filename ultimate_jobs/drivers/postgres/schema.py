"""What is wrong with a database whose migrations have all been applied."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import pgtrigger.core
from django.apps import apps
from django.db import connections
from django.db.migrations.executor import MigrationExecutor

from ultimate_jobs.drivers.postgres.statements import Statements
from ultimate_jobs.models import Job
from ultimate_jobs.models.job import LIVE_KEY_INDEX, SUPERSEDED_KEY_INDEXES

APP = "ultimate_jobs"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that was changed by hand, and one line that mends it."""

    problem: str
    repair: str


def is_migrated(alias: str) -> bool:
    """Return whether no migration of this app is left to apply."""
    executor = MigrationExecutor(connections[alias])
    return not executor.migration_plan(executor.loader.graph.leaf_nodes(APP))


def trigger_faults(alias: str) -> Iterator[Fault]:
    """Yield each trigger that is missing, disabled, or not what its model declares."""
    for model in apps.get_app_config(APP).get_models():
        for trigger in getattr(model._meta, "triggers", ()):
            status, enabled = trigger.get_installation_status(model, database=alias)
            uri = trigger.get_uri(model)
            if status in (pgtrigger.core.UNINSTALLED, pgtrigger.core.OUTDATED):
                what = "missing" if status == pgtrigger.core.UNINSTALLED else "not the declared one"
                repair = f"manage.py pgtrigger install {uri} --database {alias}"
                yield Fault(f"the trigger {uri} is {what}", repair)
            elif enabled is False:
                repair = f"manage.py pgtrigger enable {uri} --database {alias}"
                yield Fault(f"the trigger {uri} is disabled", repair)


def index_faults(alias: str) -> Iterator[Fault]:
    """Yield what is wrong with the unique index of live keys, and each that it replaced."""
    names = [LIVE_KEY_INDEX, *SUPERSEDED_KEY_INDEXES]
    found = dict(Statements(alias).rows("schema.key_indexes", names=names))
    if LIVE_KEY_INDEX not in found:
        repair = _dbshell(alias, _create(alias))
        yield Fault(f"the index {LIVE_KEY_INDEX} is missing, so nothing is deduped", repair)
    elif not found[LIVE_KEY_INDEX]:
        repair = _dbshell(alias, _drop(alias, LIVE_KEY_INDEX), _create(alias))
        yield Fault(f"the index {LIVE_KEY_INDEX} is invalid, so nothing is deduped", repair)
    for name in SUPERSEDED_KEY_INDEXES:
        if name in found:
            repair = _dbshell(alias, _drop(alias, name))
            yield Fault(f"the index {name}, which was replaced, is still enforced", repair)


def _create(alias: str) -> str:
    declared = next(one for one in Job._meta.constraints if one.name == LIVE_KEY_INDEX)
    with connections[alias].schema_editor(collect_sql=True, atomic=False) as editor:
        sql = str(declared.create_sql(Job, editor))
    return sql.replace(" INDEX ", " INDEX CONCURRENTLY ", 1)


def _drop(alias: str, name: str) -> str:
    with connections[alias].schema_editor(collect_sql=True, atomic=False) as editor:
        drop: str = editor.sql_delete_index_concurrently  # type: ignore[attr-defined]
    return drop % {"name": name}


def _dbshell(alias: str, *statements: str) -> str:
    # Each in its own -c: psql would run several in one as a transaction, which refuses these.
    given = " ".join(f"-c {shlex.quote(statement)}" for statement in statements)
    return f"manage.py dbshell --database {alias} -- {given}"
