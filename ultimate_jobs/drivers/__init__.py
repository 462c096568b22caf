"""The drivers, and the one seam that chooses: ``ULTIMATE_JOBS["DRIVER"]``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any, cast

from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from ultimate_jobs import conf
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.errors import DriverNotImplemented, DriverUnknown

__all__ = ["current_driver", "driver_for", "use_driver"]

# Resolved by path, as Django resolves its backends: the postgres driver loads models, and the door
# of this package must open before the app registry is ready.
_BUILT_IN = {
    "postgres": "ultimate_jobs.drivers.postgres.PostgresDriver",
    "memory": "ultimate_jobs.drivers.memory.MemoryDriver",
}
_NOT_BUILT = ("nats", "redis")

_replacement: Driver | None = None
_lock = Lock()


def current_driver() -> Driver:
    """Return this process's driver.

    Raises:
        DriverUnknown: the setting names none.
        DriverNotImplemented: it names one that is not built yet.
    """
    return _replacement if _replacement is not None else _from_settings()


def driver_for(alias: str | None) -> Driver:
    """Return the driver, over another database alias if one is given (``--database``).

    Raises:
        DriverUnknown, DriverNotImplemented: as ``current_driver``.
    """
    driver = current_driver()
    return driver if alias is None or alias == driver.alias else driver.at(alias)


def use_driver(driver: Driver | None) -> None:
    """Replace the driver of this process, for tests; ``None`` returns to the setting."""
    global _replacement
    _replacement = driver


def _from_settings() -> Driver:
    # Two threads that start together must not each get a memory driver of their own.
    with _lock:
        return _build()


@cache
def _build() -> Driver:
    name = conf.settings().driver
    if name in _NOT_BUILT:
        raise DriverNotImplemented(driver=name)
    try:
        factory = cast(Callable[[], Driver], import_string(_BUILT_IN.get(name, name)))
    except (ImportError, ValueError) as error:
        raise _unknown(name, str(error)) from None
    if not callable(factory):
        raise _unknown(name, f"it is a {type(factory).__name__}")
    return factory()


def _unknown(name: str, problem: str) -> DriverUnknown:
    return DriverUnknown(driver=name, known=(*_BUILT_IN, *_NOT_BUILT), problem=problem)


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "ULTIMATE_JOBS":
        _build.cache_clear()


setting_changed.connect(_forget, dispatch_uid="ultimate_jobs.drivers")
