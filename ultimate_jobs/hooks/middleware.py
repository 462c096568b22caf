"""The setting MIDDLEWARE: a site's own code around each enqueue and around each attempt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from typing import Any

from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from ultimate_jobs import conf
from ultimate_jobs.errors import SettingInvalid
from ultimate_jobs.types import EnqueueAnswer, EnqueueRequest

Proceed = Callable[[Sequence[EnqueueRequest]], list[EnqueueAnswer]]
AroundEnqueue = Callable[[Sequence[EnqueueRequest], Proceed], list[EnqueueAnswer]]
AroundAttempt = Callable[[Any], AbstractContextManager[Any]]


def around_enqueue(requests: Sequence[EnqueueRequest], enqueue: Proceed) -> list[EnqueueAnswer]:
    """Call ``enqueue`` inside every middleware's ``enqueue``, the first of the setting outermost.

    Raises:
        SettingInvalid: the setting names what cannot be imported or is no middleware.
    """
    for outer in reversed(_hooks("enqueue")):
        enqueue = _inside(outer, enqueue)
    return enqueue(requests)


def enter_attempt(context: Any) -> AbstractContextManager[Any] | None:
    """Return what to run the body in, or ``None`` where no middleware has an ``attempt``.

    The first of the setting is outermost.
    """
    hooks = _hooks("attempt")
    return _around(hooks, context) if hooks else None


@contextmanager
def _around(hooks: Iterable[AroundAttempt], context: Any) -> Iterator[None]:
    with ExitStack() as entered:
        for hook in hooks:
            entered.enter_context(hook(context))
        yield


def _inside(outer: AroundEnqueue, proceed: Proceed) -> Proceed:
    def call(requests: Sequence[EnqueueRequest]) -> list[EnqueueAnswer]:
        return outer(requests, proceed)

    return call


@cache
def _hooks(name: str) -> tuple[Callable[..., Any], ...]:
    return tuple(
        getattr(middleware, name) for middleware in _middleware() if hasattr(middleware, name)
    )


@cache
def _middleware() -> tuple[object, ...]:
    return tuple(_instance(path) for path in conf.settings().middleware)


def _instance(path: str) -> object:
    try:
        kind = import_string(path)
    except (ImportError, ValueError) as error:
        raise _refused(path, f"cannot be imported: {error}") from error
    if not isinstance(kind, type):
        raise _refused(path, "is no class")
    if not (hasattr(kind, "enqueue") or hasattr(kind, "attempt")):
        raise _refused(path, "has neither enqueue nor attempt")
    return kind()


def _refused(path: str, problem: str) -> SettingInvalid:
    return SettingInvalid(
        key="MIDDLEWARE", problem=f'names "{path}", which {problem}', example='["shop.hooks.Trace"]'
    )


def _forget(*, setting: str, **_: object) -> None:
    if setting == "ULTIMATE_JOBS":
        _hooks.cache_clear()
        _middleware.cache_clear()


setting_changed.connect(_forget, dispatch_uid="ultimate_jobs.hooks.middleware")
