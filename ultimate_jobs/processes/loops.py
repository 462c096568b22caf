"""A thread that repeats one step for the life of the process, whatever the database does."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

from django.db import reset_queries
from django.db.utils import Error, InterfaceError, OperationalError

from ultimate_jobs.errors import JobsSchema
from ultimate_jobs.events import emit
from ultimate_jobs.processes import connections
from ultimate_jobs.processes.wakes import Wake

logger = logging.getLogger("ultimate_jobs.processes")

# What passes by itself: a restart, a failover, a deadlock, a timeout, a migration in progress.
PASSING = (Error, JobsSchema)


# A connection that said one of these is of no further use: the server stops or starts, or it has
# become a standby that takes no writes.
_CONNECTION_STATES = ("08", "57P", "25006")


class Loop:
    """Repeats ``step``, which answers how many seconds to pause.

    A database error discards the thread's connection and is tried again for as long as it takes.
    Any other error is a bug: it is logged, and ``on_bug`` ends the worker rather than leaving it
    without one of its organs.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], float],
        *,
        alias: str | None,
        on_bug: Callable[[], None],
        longest_wait: float = 5.0,
    ) -> None:
        self.name = name
        self.wake = Wake()
        self._step = step
        self._alias = alias
        self._on_bug = on_bug
        self._longest_wait = longest_wait
        self._failures = 0
        self._not_before = 0.0
        self._due = float("inf")
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"jobs-{name}", daemon=True)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def stop(self, *, timeout: float) -> None:
        """End after the present step, and wait for that at most this many seconds."""
        self._stopping = True
        self.wake.call()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def attempt(self) -> float:
        """Take one step here and return the pause after it.

        After a database error no wake shortens the pause: the step is not taken before it is over.
        """
        pause = self._not_before - time.monotonic()
        if pause <= 0:
            # A step that hangs lets this moment pass.
            self._due = time.monotonic()
            pause = self._take_step()
        self._due = time.monotonic() + pause
        return pause

    def lateness(self) -> float:
        """Return for how many seconds a step has hung, or has not been taken though due."""
        return max(0.0, time.monotonic() - self._due)

    @property
    def is_failing(self) -> bool:
        """Whether the last step met a database error."""
        return self._failures > 0

    def _take_step(self) -> float:
        try:
            pause = self._step()
        except PASSING as error:
            return self._failed(error)
        self._failures = 0
        reset_queries()
        return pause

    def _failed(self, error: Exception) -> float:
        connections.discard(self._alias)
        self._failures += 1
        if self._failures == 1:
            logger.warning("%s: %s", self.name, _first_line(error))
        wait = spread_wait(self._failures, first=0.1, longest=self._longest_wait)
        self._not_before = time.monotonic() + wait
        tell_database_error(self.name, error, wait)
        return wait

    def _run(self) -> None:
        try:
            while not self._stopping:
                self.wake.pause(self.attempt())
        except BaseException:
            logger.exception("the %s of this worker failed; the worker stops", self.name)
            self._on_bug()
        finally:
            connections.close_all()


def spread_wait(failures: int, *, first: float, longest: float) -> float:
    """Return a wait that doubles with each failure, spread so that workers return one by one."""
    wait = min(longest, first * 2.0 ** min(failures - 1, 30))
    return wait * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, keeps no secret


def is_connection_error(error: BaseException) -> bool:
    """Whether the connection failed, rather than one statement on it."""
    state = sqlstate(error)
    if isinstance(error, InterfaceError):
        return True
    if state is None:
        return isinstance(error, OperationalError)
    return state.startswith(_CONNECTION_STATES)


def sqlstate(error: BaseException) -> str | None:
    """Return the server's code of a database error; ``None`` where it gave none."""
    return getattr(error.__cause__, "sqlstate", None)


def tell_database_error(loop: str, error: BaseException, wait: float) -> None:
    """Announce an error that will be tried again."""
    emit(
        "jobs.worker.database_error",
        loop=loop,
        error_class=type(error).__name__,
        sqlstate=sqlstate(error),
        retry_in_seconds=round(wait, 3),
    )


def _first_line(error: BaseException) -> str:
    # Further lines (DETAIL, CONTEXT) may quote values of rows.
    return str(error).strip().split("\n", 1)[0]
