"""System checks: stable ids, and in each hint one line to run or one edit to make."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from django.apps import AppConfig, apps
from django.core import checks
from django.core.checks import CheckMessage, Tags, register
from django.db import Error as DatabaseError
from django.db import NotSupportedError, connections, router

from ultimate_jobs import conf, registry
from ultimate_jobs.drivers import current_driver
from ultimate_jobs.errors import (
    DatabaseUnavailable,
    SettingInvalid,
    SettingUnknown,
    TaskUnbridged,
    UltimateJobsError,
)
from ultimate_jobs.hooks.middleware import load_middleware

TAG = "ultimate_jobs"

# Beside its threads a worker's process has connections for claims, acks, heartbeats, rescues and
# retention; the one that listens is not of Django's pool.
CONNECTIONS_BESIDE_THREADS = 5
# What Django's pool holds where its size is not given.
DEFAULT_POOL_SIZE = 4
OLDEST_SERVER = 140_000


@register(TAG)
def check_settings(**_: Any) -> list[CheckMessage]:
    """E001 to E006, W002: what settings alone tell."""
    try:
        alias = conf.settings().database
    except (SettingUnknown, SettingInvalid) as error:
        return [_error("E001", error.cause, error.fix)]
    found = [*_middleware(), *_driver(), *_time_zones(), *_pgtrigger()]
    return [*found, *_database(alias)] if _needs_database() else found


@register(TAG)
def check_apps(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """W001 and E020: what the apps with jobs tell."""
    configs = list(apps.get_app_configs() if app_configs is None else app_configs)
    return [*_other_aliases(configs), *_unbridged_tasks(configs)]


@register(TAG, Tags.database)
def check_database(databases: Iterable[str] | None = None, **_: Any) -> list[CheckMessage]:
    """E010, E011, W010, W011: what the queue's database tells, where it is to be asked."""
    alias = _queue_alias()
    if alias is None or alias not in (databases or ()) or not _is_postgresql(alias):
        return []
    try:
        return [*_server(alias), *_changed_by_hand(alias)]
    except NotSupportedError as error:
        return [_warning("W010", str(error), _newer_server(alias))]
    except DatabaseError as error:
        return [_unreachable(alias, error)]


def _middleware() -> Iterator[CheckMessage]:
    try:
        load_middleware()
    except SettingInvalid as error:
        yield _error("E001", error.cause, error.fix)


def _driver() -> Iterator[CheckMessage]:
    try:
        current_driver()
    except UltimateJobsError as error:
        yield _error("E006", error.cause, error.fix)


def _time_zones() -> Iterator[CheckMessage]:
    if not conf.uses_time_zones():
        yield _error(
            "E004",
            "USE_TZ is False, and every instant of a job has a time zone",
            "set USE_TZ = True in the settings",
        )


def _pgtrigger() -> Iterator[CheckMessage]:
    if not apps.is_installed("pgtrigger"):
        yield _error(
            "E005",
            "pgtrigger is not installed, so no trigger keeps what must never change",
            'add "pgtrigger" to INSTALLED_APPS before "ultimate_jobs"',
        )


def _database(alias: str) -> Iterator[CheckMessage]:
    if not _is_postgresql(alias):
        yield _error(
            "E002",
            f'the database "{alias}" is {connections[alias].vendor}, and jobs need PostgreSQL',
            _postgresql_instead(alias),
        )
        return
    driver = connections[alias].Database.__name__  # type: ignore[attr-defined]
    if driver != "psycopg":
        yield _error(
            "E003",
            f'the database "{alias}" is reached through {driver}, and jobs need psycopg 3',
            'pip install "psycopg[binary]>=3.2.2"',
        )
    yield from _pool(alias)


def _pool(alias: str) -> Iterator[CheckMessage]:
    pool = connections[alias].settings_dict.get("OPTIONS", {}).get("pool")
    if not pool:
        return
    given = pool if isinstance(pool, dict) else {}
    size = given.get("max_size") or given.get("min_size") or DEFAULT_POOL_SIZE
    needed = conf.settings().threads + CONNECTIONS_BESIDE_THREADS
    if size < needed:
        yield _warning(
            "W002",
            f'the pool of "{alias}" holds {size} connections, and a worker with '
            f"{conf.settings().threads} threads needs {needed}",
            f'set "OPTIONS": {{"pool": {{"max_size": {needed}}}}} in DATABASES["{alias}"]',
        )


def _other_aliases(configs: Sequence[AppConfig]) -> Iterator[CheckMessage]:
    home = _queue_alias()
    modules = {one.func.__module__ for one in registry.declared_jobs()}
    declaring = {apps.get_containing_app_config(module) for module in modules}
    for config in configs if home is not None else ():
        aliases = {router.db_for_write(model) for model in config.get_models()}
        if config in declaring and aliases and home not in aliases:
            yield _warning(
                "W001",
                f'"{config.label}" writes its models on {", ".join(sorted(aliases))} and its jobs '
                f'on "{home}": what it enqueues in a transaction is staged and waits for a relay',
                f'set ULTIMATE_JOBS = {{"DATABASE": "{min(aliases)}"}} in the settings',
            )


def _unbridged_tasks(configs: Sequence[AppConfig]) -> Iterator[CheckMessage]:
    for config in configs:
        module = sys.modules.get(f"{config.name}.jobs")
        for name in _tasks_defined_in(module) if module is not None else ():
            refused = TaskUnbridged(task=f"{config.name}.jobs.{name}")
            yield _error("E020", f"{refused.code}: {refused.cause}", refused.fix)


def _tasks_defined_in(module: ModuleType) -> Iterator[str]:
    """Names of tasks that no backend of ours serves; what was only imported is another's."""
    # Whoever made a task has imported its class, so there is nothing to import here.
    homes = [sys.modules.get(name) for name in ("django.tasks.base", "django_tasks.base")]
    kinds = tuple(home.Task for home in homes if home is not None)
    for name, value in vars(module).items():
        # Not isinstance: that would make a lazy object load what it stands for.
        if (
            issubclass(type(value), kinds)
            and value.func.__module__ == module.__name__
            and not type(value.get_backend()).__module__.startswith("ultimate_jobs.")
        ):
            yield name


def _server(alias: str) -> Iterator[CheckMessage]:
    version = connections[alias].pg_version  # type: ignore[attr-defined]
    if version < OLDEST_SERVER:
        yield _warning(
            "W010",
            f'the server of "{alias}" is PostgreSQL {version // 10_000}, and 14 is the oldest '
            "that is tested",
            _newer_server(alias),
        )


def _changed_by_hand(alias: str) -> Iterator[CheckMessage]:
    # By path, as the driver itself is: it cannot be imported where E003 has something to say.
    schema = import_module("ultimate_jobs.drivers.postgres.schema")
    # What a pending migration will make is no fault: "migrate" asks before it runs.
    if not schema.is_migrated(alias):
        return
    for fault in schema.trigger_faults(alias):
        yield _error("E010", f'{fault.problem} in "{alias}"', fault.repair)
    for fault in schema.index_faults(alias):
        yield _error("E011", f'{fault.problem} in "{alias}"', fault.repair)


def _unreachable(alias: str, error: DatabaseError) -> CheckMessage:
    refused = DatabaseUnavailable(alias=alias, detail=(str(error).splitlines() or ["?"])[0])
    text = f"{refused.code}: {refused.cause}; its triggers and indexes were not checked"
    return _warning("W011", text, f"manage.py dbshell --database {alias}")


def _needs_database() -> bool:
    try:
        return current_driver().alias is not None
    except UltimateJobsError:
        # Without psycopg 3 the driver cannot be imported, and E003 is there to say so.
        return conf.settings().driver == "postgres"


def _queue_alias() -> str | None:
    try:
        return current_driver().alias
    except UltimateJobsError:
        return None


def _is_postgresql(alias: str) -> bool:
    return connections[alias].vendor == "postgresql"


def _postgresql_instead(alias: str) -> str:
    others = sorted(one for one in connections if _is_postgresql(one))
    if others:
        return f'set ULTIMATE_JOBS = {{"DATABASE": "{others[0]}"}} in the settings'
    return f'set "ENGINE": "django.db.backends.postgresql" in DATABASES["{alias}"]'


def _newer_server(alias: str) -> str:
    return f'point "HOST" in DATABASES["{alias}"] to a server of PostgreSQL 14 or newer'


def _error(id_: str, text: str, hint: str) -> CheckMessage:
    return checks.Error(text, hint=hint, id=f"ultimate_jobs.{id_}")


def _warning(id_: str, text: str, hint: str) -> CheckMessage:
    return checks.Warning(text, hint=hint, id=f"ultimate_jobs.{id_}")
