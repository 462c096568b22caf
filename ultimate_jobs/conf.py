"""The only reader of Django settings: one dict, ULTIMATE_JOBS, typed, unknown keys refused."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import cache
from typing import Any, cast

from django.conf import settings as django_settings
from django.core.signals import setting_changed
from django.db import connections

from ultimate_jobs.errors import JobKeyInvalid, SettingInvalid, SettingUnknown
from ultimate_jobs.identity import check_text

# A thread holds a connection, and a claim one statement: beyond these, more processes help.
MOST = {"THREADS": 256, "CLAIM_BATCH": 1000}
# What fits the database's integer.
MOST_OF_ANYTHING = 2_147_483_647


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
    threads: int = 8
    claim_batch: int = 100
    max_payload_bytes: int = 1_048_576
    max_result_bytes: int = 1_048_576
    max_lost_leases: int = 10
    lease_ttl_ms: int = 30_000
    heartbeat_ms: int = 5_000
    poll_ms: int = 250
    rescue_interval_ms: int = 5_000
    ack_interval_ms: int = 10
    prefetch_ms: int = 200
    grace_ms: int = 25_000


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
        return check_text("any", "queue", _text(key, value))
    except JobKeyInvalid as error:
        problem = f"is no queue: {error.cause.partition(': ')[2]}"
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


def _example(key: str) -> str:
    """Return the default as it is written in the settings."""
    attribute, read = _READERS[key]
    default = _DEFAULTS[attribute]
    return f"{default / 1000:g}" if read is _duration else json.dumps(default)


def _reader(attribute: str, kind: str) -> tuple[str, tuple[str, Callable[[str, object], object]]]:
    if attribute.endswith("_ms"):
        return attribute.removesuffix("_ms").upper(), (attribute, _duration)
    if attribute == "default_queue":
        return attribute.upper(), (attribute, _queue)
    return attribute.upper(), (attribute, _count if kind == "int" else _text)


_READERS = dict(_reader(field.name, cast(str, field.type)) for field in fields(Settings))
_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Settings)}


def _forget(*, setting: str, **_: object) -> None:
    if setting == "ULTIMATE_JOBS":
        _load.cache_clear()


setting_changed.connect(_forget, dispatch_uid="ultimate_jobs.conf")
