"""The options that ``using()`` carries, checked before anything else happens."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connections
from django.utils.timezone import is_aware

from ultimate_jobs.errors import JobOptionInvalid
from ultimate_jobs.identity import check_text
from ultimate_jobs.types import OnConflict

PRIORITY_RANGE = (-100, 100)

# Far enough for any job, and near enough that every client can still read the stored instant.
MAX_DELAY = timedelta(days=36_525)
LAST_START = datetime(9000, 1, 1, tzinfo=UTC)

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class EnqueueOptions:
    """How an enqueue differs from what the declaration says; ``None`` means as declared.

    Attributes:
        run_after: an aware datetime, or a timedelta from the database's own now.
        priority: -100 to 100, higher first.
        alias: the connection to write on.
    """

    tenant: str | None = None
    run_after: datetime | timedelta | None = None
    priority: int | None = None
    queue: str | None = None
    alias: str | None = None
    on_conflict: OnConflict = OnConflict.EXISTING
    traceparent: str | None = None

    def updated(self, job: str, changes: dict[str, Any]) -> EnqueueOptions:
        """Return these options with some replaced.

        Raises:
            JobOptionInvalid, JobKeyInvalid: a value has the wrong type or range.
        """
        checked = {name: _CHECKS[name](job, value) for name, value in changes.items()}
        return replace(self, **checked)


def check_priority(job: str, value: object) -> int:
    """Return a priority within -100..100, or raise ``JobOptionInvalid``."""
    low, high = PRIORITY_RANGE
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise JobOptionInvalid(
            option="priority",
            problem=f'of job "{job}" is no whole number from {low} to {high}',
            fix="use priority=5",
        )
    return value


def _check_tenant(job: str, value: object) -> str | None:
    return None if value is None or value == "" else check_text(job, "tenant", value)


def _check_queue(job: str, value: object) -> str | None:
    return None if value is None else check_text(job, "queue", value)


def _check_run_after(job: str, value: object) -> datetime | timedelta | None:
    problem = "is neither an aware datetime nor a timedelta"
    if value is None:
        return None
    if isinstance(value, timedelta):
        if value <= MAX_DELAY:
            return value
        problem = f"is over {MAX_DELAY.days} days away"
    elif isinstance(value, datetime) and is_aware(value):
        if value <= LAST_START:
            return value
        problem = f"lies behind the year {LAST_START.year}"
    raise JobOptionInvalid(
        option="run_after",
        problem=f'of job "{job}" {problem}',
        fix="use .using(run_after=timedelta(minutes=5))",
    )


def _check_alias(job: str, value: object) -> str | None:
    if value is None or (isinstance(value, str) and value in connections):
        return value
    raise JobOptionInvalid(
        option="alias",
        problem=f'of job "{job}" names none of the databases {", ".join(sorted(connections))}',
        fix='use .using(alias="default")',
    )


def _check_on_conflict(job: str, value: object) -> OnConflict:
    try:
        return OnConflict(value)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        names = ", ".join(one.value for one in OnConflict)
        raise JobOptionInvalid(
            option="on_conflict",
            problem=f'of job "{job}" is none of: {names}',
            fix='use .using(on_conflict="error")',
        ) from None


def _check_traceparent(job: str, value: object) -> str | None:
    if value is None or (isinstance(value, str) and _TRACEPARENT.fullmatch(value)):
        return value
    raise JobOptionInvalid(
        option="traceparent",
        problem=f'of job "{job}" is no W3C traceparent of 55 characters, hexadecimal in lower case',
        fix="leave traceparent out",
    )


def _check_declared_priority(job: str, value: object) -> int | None:
    return None if value is None else check_priority(job, value)


_CHECKS: dict[str, Any] = {
    "tenant": _check_tenant,
    "run_after": _check_run_after,
    "priority": _check_declared_priority,
    "queue": _check_queue,
    "alias": _check_alias,
    "on_conflict": _check_on_conflict,
    "traceparent": _check_traceparent,
}
