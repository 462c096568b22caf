"""The setting MIDDLEWARE: a site's own code around each enqueue and around each attempt."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from typing import Any, NamedTuple

from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from ultimate_jobs import conf
from ultimate_jobs.errors import MiddlewareInvalid, SettingInvalid
from ultimate_jobs.types import EnqueueAnswer, EnqueueRequest

HOOKS = ("enqueue", "attempt")

Proceed = Callable[[Sequence[EnqueueRequest]], list[EnqueueAnswer]]
AroundEnqueue = Callable[[Sequence[EnqueueRequest], Proceed], list[EnqueueAnswer]]
AroundAttempt = Callable[[Any], AbstractContextManager[Any]]


class Hook(NamedTuple):
    """One method of one middleware, and the dotted path that the setting names it by."""

    path: str
    call: Callable[..., Any]


def load_middleware() -> None:
    """Make every middleware that the setting names; a process does it once.

    Raises:
        SettingInvalid: the setting names what cannot be imported or made, or is no middleware.
    """
    for name in HOOKS:
        _hooks(name)


def around_enqueue(requests: Sequence[EnqueueRequest], enqueue: Proceed) -> list[EnqueueAnswer]:
    """Call ``enqueue`` inside every middleware's ``enqueue``, the first of the setting outermost.

    Raises:
        SettingInvalid: as for ``load_middleware``.
        MiddlewareInvalid: one returned no answers, or handed on no requests.
    """
    for outer in reversed(_hooks("enqueue")):
        enqueue = _inside(outer, enqueue)
    return enqueue(requests)


def enter_attempt(context: Any) -> AbstractContextManager[Any] | None:
    """Return what to run the body in, or ``None`` where no middleware has an ``attempt``.

    The first of the setting is outermost.

    Raises:
        SettingInvalid: as for ``load_middleware``.
        MiddlewareInvalid: from inside, one returned no context manager.
    """
    hooks = _hooks("attempt")
    return _around(hooks, context) if hooks else None


@contextmanager
def _around(hooks: Iterable[Hook], context: Any) -> Iterator[None]:
    with ExitStack() as entered:
        for hook in hooks:
            entered.enter_context(_entered(hook, context))
        yield


def _entered(hook: Hook, context: Any) -> AbstractContextManager[Any]:
    around = hook.call(context)
    if hasattr(type(around), "__enter__") and hasattr(type(around), "__exit__"):
        return around  # type: ignore[no-any-return]
    raise MiddlewareInvalid(
        middleware=hook.path,
        problem=f"returned {type(around).__name__} from attempt() and no context manager",
        fix="decorate attempt() with @contextlib.contextmanager and let it yield once",
    )


def _inside(outer: Hook, proceed: Proceed) -> Proceed:
    def call(requests: Sequence[EnqueueRequest]) -> list[EnqueueAnswer]:
        written = False

        def go_on(handed_on: Sequence[EnqueueRequest]) -> list[EnqueueAnswer]:
            nonlocal written
            answers = proceed(_requests(outer, handed_on))
            written = True
            return answers

        answers = outer.call(requests, go_on)
        _check_answers(outer, answers, len(requests), written=written)
        return answers  # type: ignore[no-any-return]

    return call


def _requests(outer: Hook, handed_on: object) -> Sequence[EnqueueRequest]:
    if _is_list_of(EnqueueRequest, handed_on):
        return handed_on  # type: ignore[return-value]
    raise MiddlewareInvalid(
        middleware=outer.path,
        problem=f"called proceed() with {type(handed_on).__name__} and no list of EnqueueRequest; "
        "nothing was written by it",
        fix="call proceed([replace(one, priority=5) for one in requests])",
    )


def _check_answers(outer: Hook, answers: object, count: int, *, written: bool) -> None:
    if _is_list_of(EnqueueAnswer, answers):
        if len(answers) == count:  # type: ignore[arg-type]
            return
        returned = f"{len(answers)} answers from enqueue() and not {count}"  # type: ignore[arg-type]
    else:
        returned = f"{type(answers).__name__} from enqueue() and no list of {count} answers"
    end = (
        "the jobs were written, and stay unless the caller's transaction is rolled back"
        if written
        else "nothing was written, because it did not call proceed(requests)"
    )
    raise MiddlewareInvalid(
        middleware=outer.path,
        problem=f"returned {returned}; {end}",
        fix="let enqueue() return what proceed(requests) returned",
    )


def _is_list_of(kind: type, values: object) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(one, kind) for one in values)


@cache
def _hooks(name: str) -> tuple[Hook, ...]:
    return tuple(
        Hook(path, getattr(middleware, name))
        for path, middleware in _middleware()
        if hasattr(middleware, name)
    )


@cache
def _middleware() -> tuple[tuple[str, object], ...]:
    return tuple((path, _instance(path)) for path in conf.settings().middleware)


def _instance(path: str) -> object:
    try:
        kind = import_string(path)
    except Exception as error:
        # Importing runs the site's code, which may raise anything.
        raise _refused(path, f"cannot be imported: {_told(error)}") from error
    if not isinstance(kind, type):
        raise _refused(path, "is no class")
    if not any(callable(getattr(kind, name, None)) for name in HOOKS):
        raise _refused(path, "has neither enqueue nor attempt")
    try:
        return kind()
    except Exception as error:
        problem = f"cannot be made: a middleware is called without arguments: {_told(error)}"
        raise _refused(path, problem) from error


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or ['?'])[0]}"


def _refused(path: str, problem: str) -> SettingInvalid:
    others = [other for other in conf.settings().middleware if other != path]
    return SettingInvalid(
        key="MIDDLEWARE", problem=f'names "{path}", which {problem}', example=json.dumps(others)
    )


def _forget(*, setting: str, **_: object) -> None:
    if setting == "ULTIMATE_JOBS":
        _hooks.cache_clear()
        _middleware.cache_clear()


setting_changed.connect(_forget, dispatch_uid="ultimate_jobs.hooks.middleware")
