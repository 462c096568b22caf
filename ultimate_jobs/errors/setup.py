"""Refusals of the surroundings: settings, drivers, the database, its schema, a command's words."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from ultimate_jobs.errors.base import UltimateJobsError, listing


class JobsSchema(UltimateJobsError):
    """The database lacks what this release needs, or still enforces what it replaced."""

    code = "X_JOBS_SCHEMA"

    def __init__(self, *, detail: str, alias: str) -> None:
        database = "" if alias == "default" else f" --database {alias}"
        super().__init__(
            cause=f'the database "{alias}" is not at this release\'s schema: {detail}',
            fix=f"manage.py migrate ultimate_jobs{database}",
        )


class DriverUnknown(UltimateJobsError):
    """ULTIMATE_JOBS["DRIVER"] names no driver."""

    code = "X_DRIVER_UNKNOWN"

    def __init__(self, *, driver: str, known: Iterable[str], problem: str = "") -> None:
        super().__init__(
            cause=f'ULTIMATE_JOBS["DRIVER"] is {driver!r}, which is none of {listing(known)} '
            f"and no importable driver{': ' + problem if problem else ''}",
            fix='set ULTIMATE_JOBS = {"DRIVER": "postgres"} in the settings',
        )


class DriverNotImplemented(UltimateJobsError):
    """The driver exists in name only."""

    code = "X_DRIVER_NOT_IMPLEMENTED"

    def __init__(self, *, driver: str) -> None:
        super().__init__(
            cause=f'the driver "{driver}" is not built yet',
            fix='set ULTIMATE_JOBS = {"DRIVER": "postgres"} in the settings',
        )


class DriverUnsupported(UltimateJobsError):
    """The driver cannot do what was asked."""

    code = "X_DRIVER_UNSUPPORTED"

    def __init__(self, *, driver: str, feature: str) -> None:
        super().__init__(
            cause=f'the driver "{driver}" does not support {feature}',
            fix='set ULTIMATE_JOBS = {"DRIVER": "postgres"} in the settings',
        )


class SettingUnknown(UltimateJobsError):
    """ULTIMATE_JOBS has a key that nothing reads."""

    code = "X_SETTING_UNKNOWN"

    def __init__(self, *, key: str, nearest: str | None, known: Iterable[str]) -> None:
        super().__init__(
            cause=f'ULTIMATE_JOBS["{key}"] is read by nothing (known: {listing(known)})',
            fix=f'rename the key to "{nearest}"' if nearest else f'remove "{key}"',
        )


class SettingInvalid(UltimateJobsError):
    """A setting has a value of the wrong type or range."""

    code = "X_SETTING_INVALID"

    def __init__(self, *, key: str, problem: str, example: str) -> None:
        super().__init__(
            cause=f'ULTIMATE_JOBS["{key}"] {problem}',
            fix=f'set ULTIMATE_JOBS = {{"{key}": {example}}} in the settings',
        )


class MiddlewareInvalid(UltimateJobsError):
    """A middleware returned what a middleware may not return."""

    code = "X_MIDDLEWARE_INVALID"

    def __init__(self, *, middleware: str, problem: str, fix: str) -> None:
        super().__init__(cause=f'the middleware "{middleware}" {problem}', fix=fix)


class ArgumentInvalid(UltimateJobsError):
    """A command was given an argument it cannot use."""

    code = "X_ARGUMENT_INVALID"

    def __init__(self, *, argument: str, problem: str, fix: str) -> None:
        super().__init__(cause=f"{argument} {problem}", fix=fix)


class DatabaseUnavailable(UltimateJobsError):
    """The database cannot be reached."""

    code = "X_DATABASE_UNAVAILABLE"

    def __init__(self, *, alias: str, detail: str) -> None:
        super().__init__(
            cause=f'the database "{alias}" cannot be reached: {detail}',
            fix=f"manage.py check --database {alias}",
        )


class DatabaseUnsupported(UltimateJobsError):
    """The tables of this app were to be made, or used, in a database that is not PostgreSQL."""

    code = "X_DATABASE_UNSUPPORTED"

    def __init__(self, *, alias: str, vendor: str, fix: str | None = None) -> None:
        super().__init__(
            cause=f'the database "{alias}" is {vendor}, and the tables of ultimate_jobs '
            "are made of what only PostgreSQL has",
            fix=f'let allow_migrate("{alias}", "ultimate_jobs") of a router in '
            "DATABASE_ROUTERS return False"
            if fix is None
            else fix,
        )


class MigrationLocked(UltimateJobsError):
    """A migration did not get its table lock within its tries; nothing was changed."""

    code = "X_MIGRATION_LOCKED"

    def __init__(
        self, *, tables: Sequence[str], mode: str, tries: int, holders: Sequence[int]
    ) -> None:
        sessions = ", ".join(str(pid) for pid in holders) or "ended by now"
        super().__init__(
            cause=f"{listing(tables)} could not be locked in {mode} mode in {tries} tries, each "
            f"given up before others queue behind it (sessions that hold locks: {sessions})",
            fix="manage.py migrate ultimate_jobs",
        )


class MigrationIndexRefused(UltimateJobsError):
    """An index that the next step leans on is missing, invalid, or not the declared one."""

    code = "X_MIGRATION_INDEX_REFUSED"

    def __init__(self, *, index: str, table: str, problem: str, fix: str) -> None:
        super().__init__(cause=f"index {index} on {table} {problem}", fix=fix)


class MigrationKeysShared(UltimateJobsError):
    """Two tenants hold one (name, key), which the index of an earlier release cannot hold."""

    code = "X_MIGRATION_KEYS_SHARED"

    def __init__(self, *, shared: Sequence[tuple[str, str, Sequence[str]]], total: int) -> None:
        self.total = total
        listed = "; ".join(
            f"{name} {key!r} of {', '.join(repr(tenant) for tenant in tenants)}"
            for name, key, tenants in shared
        )
        more = f"; and {total - len(shared)} more" if total > len(shared) else ""
        super().__init__(
            cause="the index to go back to cannot hold a key that live jobs of several tenants "
            f"share ({total} in all): {listed}{more}"
            if shared
            else "two tenants held one key while the index to go back to was being built; "
            "by now they do not",
            fix=f"manage.py jobs ls --key {shlex.quote(shared[0][1])}"
            if shared
            else "manage.py migrate ultimate_jobs 0010",
        )
