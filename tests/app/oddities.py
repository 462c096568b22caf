"""What bodies have done to bring their worker down, by name."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from django.db import connection, transaction

from tests.app.models import Effect


class RefusesStr(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class Enormous(Exception):
    def __str__(self) -> str:
        return "x" * 50_000_000

    __repr__ = __str__


class NeedsKeyword(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")


class RefusesToBeWalked(dict[str, int]):
    def items(self) -> Any:
        raise SystemExit("not even a result")


def do(what: str) -> Any:
    """Do it."""
    return ODDITIES[what]()


def _raise(error: BaseException) -> Any:
    raise error


def _leave_atomic_open() -> None:
    transaction.atomic().__enter__()
    Effect.objects.create(job_id="00000000-0000-0000-0000-000000000000", label="never committed")


def _begin_by_hand() -> None:
    with connection.cursor() as cursor:
        cursor.execute("begin")
    Effect.objects.create(job_id="00000000-0000-0000-0000-000000000000", label="never committed")


def _switch_autocommit_off() -> None:
    transaction.set_autocommit(False)
    Effect.objects.create(job_id="00000000-0000-0000-0000-000000000000", label="never committed")


def _break_transaction() -> None:
    transaction.atomic().__enter__()
    with connection.cursor() as cursor:
        cursor.execute("select 1/0")


def _close_connection_in_atomic() -> None:
    transaction.atomic().__enter__()
    connection.close()


def _kill_own_connection() -> None:
    with connection.cursor() as cursor:
        cursor.execute("select pg_terminate_backend(pg_backend_pid())")


def _recurse() -> None:
    _recurse()


def _cycle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


# The failures: each ends its job dead, and nothing else.
FAILING: dict[str, Callable[[], Any]] = {
    "NUL in the error": lambda: _raise(ValueError("bad \x00 byte")),
    "half a surrogate pair in the error": lambda: _raise(ValueError("bad \ud800 half")),
    "error whose str() raises": lambda: _raise(RefusesStr()),
    "error of 50 MB": lambda: _raise(Enormous()),
    "error with a required keyword": lambda: _raise(NeedsKeyword(code=1)),
    "ExceptionGroup": lambda: _raise(ExceptionGroup("two", [ValueError("a"), TypeError("b")])),
    "SystemExit": lambda: _raise(SystemExit(7)),
    "KeyboardInterrupt": lambda: _raise(KeyboardInterrupt()),
    "GeneratorExit": lambda: _raise(GeneratorExit()),
    "CancelledError": lambda: _raise(asyncio.CancelledError()),
    "endless recursion": _recurse,
    "NUL in the result": lambda: {"a": "x\x00y"},
    "NUL in a key of the result": lambda: {"a\x00": 1},
    "half a surrogate pair in the result": lambda: "\ud800",
    "dict_items as result": lambda: {1: 2}.items(),
    "generator as result": lambda: (one for one in [1]),
    "queryset as result": lambda: Effect.objects.all(),
    "model instance as result": lambda: Effect(label="x"),
    "lock as result": threading.Lock,
    "result within itself": _cycle,
    "result that exits when walked": lambda: RefusesToBeWalked(a=1),
    "result over the limit": lambda: "x" * 2_000_000,
    "open atomic()": _leave_atomic_open,
    "BEGIN by hand": _begin_by_hand,
    "autocommit off": _switch_autocommit_off,
    "broken transaction": _break_transaction,
    "connection closed in atomic()": _close_connection_in_atomic,
    "connection killed": _kill_own_connection,
}

# Odd, but no failure.
HARMLESS: dict[str, Callable[[], Any]] = {
    "connection closed": lambda: connection.close(),
    "escaped characters in the result": lambda: {"a": "\\u0000 \\x00 \u2028 😀"},
}

ODDITIES = {**FAILING, **HARMLESS}
