"""Database sessions that a test orders by hand: threads with a connection of their own."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import connections, transaction

T = TypeVar("T")
DEADLINE_SECONDS = 20.0


class Session:
    """One connection; ``start`` begins a call and returns its future, ``run`` waits for it."""

    def __init__(self, alias: str = "default") -> None:
        self._alias = alias
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self.pid: int = self.run(lambda: self.fetch("select pg_backend_pid()")[0][0])

    def start(self, call: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        self._calls.put((call, future))
        return future

    def run(self, call: Callable[[], T]) -> T:
        return self.start(call).result(timeout=DEADLINE_SECONDS)

    def fetch(self, sql: str, params: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Run SQL in this session's thread; call it from inside ``run``."""
        with connections[self._alias].cursor() as cursor:
            cursor.execute(sql, params)
            return cursor.fetchall() if cursor.description else []

    def sql(self, sql: str, params: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return self.run(lambda: self.fetch(sql, params))

    def begin(self, level: str = "read committed") -> None:
        """Open Django's ``atomic()`` in this session."""

        def enter() -> None:
            self._atomic = transaction.atomic(using=self._alias)
            self._atomic.__enter__()
            self.fetch(f"set transaction isolation level {level}")

        self.run(enter)

    def commit(self) -> None:
        self.run(lambda: self._atomic.__exit__(None, None, None))

    def rollback(self) -> None:
        def leave() -> None:
            transaction.set_rollback(True, using=self._alias)
            self._atomic.__exit__(None, None, None)

        self.run(leave)

    def close(self) -> None:
        self._calls.put(None)
        self._thread.join(timeout=DEADLINE_SECONDS)

    def _serve(self) -> None:
        try:
            while (item := self._calls.get()) is not None:
                call, future = item
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
        finally:
            connections.close_all()


@contextmanager
def sessions(count: int) -> Iterator[list[Session]]:
    """Open sessions and close them, whatever happens between."""
    opened = [Session() for _ in range(count)]
    try:
        yield opened
    finally:
        for session in opened:
            session.close()


def wait_until_blocked(session: Session) -> None:
    """Return when the session waits for another session's lock; fail if it never does."""
    wait_until(
        lambda: bool(fetch("select pg_blocking_pids(%s) <> '{}'", (session.pid,))[0][0]),
        f"session {session.pid} is never blocked",
    )


def wait_until(condition: Callable[[], bool], otherwise: str) -> None:
    """Poll a condition up to a deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.005)


def fetch(sql: str, params: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Run SQL on the test's own connection."""
    with connections["default"].cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall() if cursor.description else []
