"""The only reader of Django settings: one dict, ULTIMATE_JOBS, typed, unknown keys refused."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import cache
from types import MappingProxyType
from typing import Any, cast

from django.conf import settings as django_settings
from django.core.signals import setting_changed
from django.db import connections

from ultimate_jobs.errors import JobKeyInvalid, SettingInvalid, SettingUnknown
from ultimate_jobs.identity import check_text

# A thread holds a connection, and a claim one statement: beyond these, more processes help.
MOST = {
    "THREADS": 256,
    "CLAIM_BATCH": 1000,
    "ASYNC_CONCURRENCY": 10_000,
    "MAX_DEFERRALS": 32_767,
    "PROCESSES": 64,
}
# What fits the database's integer.
MOST_OF_ANYTHING = 2_147_483_647
# A slot is a row, and taking one looks at the numbers that are free.
MOST_CONCURRENCY = 10_000
WHEN_FULL = ("refuse", "delay")
DAY_MS = 86_400_000
# The database refuses to delete the history of a day: see event_is_kept in sql/triggers.sql.
RETENTION_FLOOR_MS = DAY_MS
LONGEST_RETENTION_MS = 100 * 365 * DAY_MS


@dataclass(frozen=True, slots=True)
class RetentionOptions:
    """How long a finished job is kept, by its state, in milliseconds; ``None`` is for ever."""

    completed_ms: int | None = 14 * DAY_MS
    cancelled_ms: int | None = 14 * DAY_MS
    dead_ms: int | None = 90 * DAY_MS


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """What the setting ``QUEUES`` says of one queue.

    Attributes:
        concurrency: how many of its jobs run at once, in all workers; ``None`` is no limit.
        max_depth: how many of its jobs may wait; ``None`` is no bound.
        when_full: what an enqueue beyond ``max_depth`` meets, ``refuse`` or ``delay``.
    """

    concurrency: int | None = None
    max_depth: int | None = None
    when_full: str = "refuse"


@dataclass(frozen=True, slots=True)
class Settings:
    """The typed form of ``ULTIMATE_JOBS``; each attribute is its key in lower case.

    Attributes ending in ``_ms`` come from the key without that ending, which takes a
    ``timedelta`` or a number of seconds.
    """

    driver: str = "postgres"
    database: str = "default"
    default_queue: str = "default"
    app_version: str = ""
    processes: int = 1
    threads: int = 8
    async_concurrency: int = 100
    claim_batch: int = 500
    max_payload_bytes: int = 1_048_576
    max_result_bytes: int = 1_048_576
    max_lost_leases: int = 10
    max_deferrals: int = 1000
    lease_ttl_ms: int = 30_000
    heartbeat_ms: int = 5_000
    poll_ms: int = 250
    rescue_interval_ms: int = 5_000
    ack_interval_ms: int = 10
    prefetch_ms: int = 50
    grace_ms: int = 25_000
    stuck_after_ms: int = 10_000
    middleware: tuple[str, ...] = ()
    listen: bool | str | None = True
    claim_avoidance: bool = True
    retention: RetentionOptions = RetentionOptions()
    queues: Mapping[str, QueueOptions] = field(default_factory=lambda: MappingProxyType({}))

    def queue(self, name: str) -> QueueOptions:
        """Return what is said of a queue; the defaults where nothing is."""
        return self.queues.get(name, _NOTHING_SAID)


def settings() -> Settings:
    """Return the current settings.

    Raises:
        SettingUnknown: a key is read by nothing; the nearest known key is the fix.
        SettingInvalid: a value has the wrong type or range.
    """
    return _load()


def known_keys() -> list[str]:
    """Return every key that ``ULTIMATE_JOBS`` may hold."""
    return sorted(_READERS)


def uses_time_zones() -> bool:
    """Return Django's own USE_TZ."""
    return bool(django_settings.USE_TZ)


@cache
def _load() -> Settings:
    given = getattr(django_settings, "ULTIMATE_JOBS", {})
    if not isinstance(given, Mapping):
        raise SettingInvalid(
            key="DRIVER", problem="cannot be read: not a dict", example='"postgres"'
        )
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in _READERS:
            nearest = difflib.get_close_matches(str(key).upper(), _READERS, n=1, cutoff=0.5)
            raise SettingUnknown(
                key=str(key), nearest=nearest[0] if nearest else None, known=known_keys()
            )
        attribute, read = _READERS[key]
        values[attribute] = read(key, value)
    loaded = Settings(**values)
    if loaded.database not in connections:
        raise SettingInvalid(
            key="DATABASE",
            problem=f'is "{loaded.database}", which DATABASES does not define',
            example='"default"',
        )
    # Two renewals must fit into one lease, or a single slow heartbeat loses every job.
    if loaded.heartbeat_ms * 2 > loaded.lease_ttl_ms:
        raise SettingInvalid(
            key="HEARTBEAT",
            problem=f"is {loaded.heartbeat_ms} ms, more than half of LEASE_TTL "
            f"({loaded.lease_ttl_ms} ms)",
            example=f"{loaded.lease_ttl_ms / 6000:g}",
        )
    return loaded


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        problem = f"is {type(value).__name__}, not str"
        raise SettingInvalid(key=key, problem=problem, example=_example(key))
    return value


def _queue(key: str, value: object) -> str:
    try:
        return check_text(None, "queue", _text(key, value))
    except JobKeyInvalid as error:
        problem = f"is no queue: {error.cause}"
        raise SettingInvalid(key=key, problem=problem, example=_example(key)) from None


def _count(key: str, value: object) -> int:
    most = MOST.get(key, MOST_OF_ANYTHING)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        problem = f"is not a whole number from 1 to {most}"
        raise SettingInvalid(key=key, problem=problem, example=_example(key))
    return value


def _duration(key: str, value: object) -> int:
    seconds: float
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    else:
        problem = "is neither timedelta nor seconds"
        raise SettingInvalid(key=key, problem=problem, example=_example(key))
    if not 0.001 <= seconds <= 86_400 * 365:
        problem = "is not between a millisecond and a year"
        raise SettingInvalid(key=key, problem=problem, example=_example(key))
    return round(seconds * 1000)


def _flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        problem = f"is {type(value).__name__}, neither True nor False"
        raise SettingInvalid(key=key, problem=problem, example=_example(key))
    return value


def _listen(key: str, value: object) -> bool | str | None:
    """Take what looks like a connection string; the driver reads it. It is never shown."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and ("=" in value or "://" in value) and "\x00" not in value:
        return value
    problem = "is neither True, False, None nor a connection string"
    raise SettingInvalid(key=key, problem=problem, example=_example(key))


def _paths(key: str, value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return tuple(value)
    problem = "is no list of dotted paths"
    raise SettingInvalid(key=key, problem=problem, example="[]")


def _queues(key: str, value: object) -> Mapping[str, QueueOptions]:
    if not isinstance(value, Mapping):
        problem = f"is {type(value).__name__}, not a dict of queues"
        raise SettingInvalid(key=key, problem=problem, example=_QUEUES_EXAMPLE)
    return MappingProxyType(
        {_queue_name(key, name): _queue_options(name, given) for name, given in value.items()}
    )


def _queue_name(key: str, name: object) -> str:
    if not isinstance(name, str):
        problem = f"has the name {name!r}, which is {type(name).__name__}, not str"
        raise SettingInvalid(key=key, problem=problem, example=_QUEUES_EXAMPLE)
    try:
        return check_text(None, "queue", name)
    except JobKeyInvalid as error:
        problem = f"names no queue with {name!r}: {error.cause}"
        raise SettingInvalid(key=key, problem=problem, example=_QUEUES_EXAMPLE) from None


def _queue_options(queue: str, given: object) -> QueueOptions:
    if not isinstance(given, Mapping):
        raise _queue_refused(queue, None, f"is {type(given).__name__}, not a dict of options")
    for option, value in given.items():
        if option not in _QUEUE_OPTIONS:
            known = ", ".join(_QUEUE_OPTIONS)
            raise _queue_refused(queue, option, f"is read by nothing (known: {known})")
        if option == "when_full":
            if value not in WHEN_FULL:
                raise _queue_refused(queue, option, f"is none of {', '.join(WHEN_FULL)}")
            continue
        most = MOST_CONCURRENCY if option == "concurrency" else MOST_OF_ANYTHING
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise _queue_refused(queue, option, f"is not a whole number from 1 to {most}")
    if "when_full" in given and "max_depth" not in given:
        raise _queue_refused(queue, "when_full", "without max_depth has nothing to be full by")
    return QueueOptions(**given)


def _queue_refused(queue: str, option: object | None, problem: str) -> SettingInvalid:
    place = "" if option is None else f", {str(option)!r}"
    near = difflib.get_close_matches(str(option).lower(), _QUEUE_SAMPLES, n=1, cutoff=0.4)
    sample = _QUEUE_SAMPLES[near[0] if near else "concurrency"]
    return SettingInvalid(
        key="QUEUES",
        problem=f"of queue {queue!r}{place} {problem}",
        example=json.dumps({queue: sample}, ensure_ascii=False),
    )


def _retention(key: str, value: object) -> RetentionOptions:
    if not isinstance(value, Mapping):
        problem = f"is {type(value).__name__}, not a dict of states"
        raise SettingInvalid(key=key, problem=problem, example=_RETENTION_EXAMPLE)
    for state in value:
        if state not in _RETAINED:
            problem = f"names {state!r}, which is none of {', '.join(_RETAINED)}"
            raise SettingInvalid(key=key, problem=problem, example=_RETENTION_EXAMPLE)
    return RetentionOptions(
        **{f"{state}_ms": _retained_ms(key, state, kept) for state, kept in value.items()}
    )


def _retained_ms(key: str, state: str, kept: object) -> int | None:
    if kept is None:
        return None
    seconds = kept.total_seconds() if isinstance(kept, timedelta) else kept
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        problem = f"of {state!r} is neither timedelta, nor seconds, nor None"
    elif RETENTION_FLOOR_MS <= seconds * 1000 <= LONGEST_RETENTION_MS:
        return round(seconds * 1000)
    else:
        problem = f"of {state!r} is not between a day and a hundred years"
    raise SettingInvalid(key=key, problem=problem, example=f'{{"{state}": 86400}}')


def _example(key: str) -> str:
    """Return the default as it is written in the settings."""
    attribute, read = _READERS[key]
    if read in (_flag, _listen):
        return str(_DEFAULTS[attribute])
    default = _DEFAULTS[attribute]
    return f"{default / 1000:g}" if read is _duration else json.dumps(default)


def _reader(attribute: str, kind: str) -> tuple[str, tuple[str, Callable[[str, object], object]]]:
    if attribute.endswith("_ms"):
        return attribute.removesuffix("_ms").upper(), (attribute, _duration)
    special = {
        "default_queue": _queue,
        "queues": _queues,
        "retention": _retention,
        "claim_avoidance": _flag,
        "middleware": _paths,
        "listen": _listen,
    }
    by_kind = _count if kind == "int" else _text
    return attribute.upper(), (attribute, special.get(attribute, by_kind))


_READERS = dict(_reader(field.name, cast(str, field.type)) for field in fields(Settings))
_QUEUE_OPTIONS = tuple(one.name for one in fields(QueueOptions))
_QUEUES_EXAMPLE = '{"billing": {"concurrency": 5}}'
# By option: what may be said of a queue that misspells it.
_QUEUE_SAMPLES: dict[str, dict[str, object]] = {
    "concurrency": {"concurrency": 5},
    "max_depth": {"max_depth": 10_000},
    "when_full": {"max_depth": 10_000, "when_full": "delay"},
}
_NOTHING_SAID = QueueOptions()
_RETAINED = tuple(one.name.removesuffix("_ms") for one in fields(RetentionOptions))
_RETENTION_EXAMPLE = '{"completed": 1209600}'
_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Settings)}


def _forget(*, setting: str, **_: object) -> None:
    if setting == "ULTIMATE_JOBS":
        _load.cache_clear()


setting_changed.connect(_forget, dispatch_uid="ultimate_jobs.conf")
