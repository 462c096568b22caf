"""The one event loop of a worker process, on which its ``async def`` bodies run as tasks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from threading import Lock, Thread

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async

from ultimate_jobs.errors import JobUnknown
from ultimate_jobs.processes import connections
from ultimate_jobs.processes.crew import Run
from ultimate_jobs.registry import find_job
from ultimate_jobs.services.attempts import Ending
from ultimate_jobs.types import Claim

logger = logging.getLogger("ultimate_jobs.processes")

Tidy = Callable[[], Awaitable[list[str]]]


class Lane:
    """One thread for what bodies on the loop do synchronously, as the ORM does.

    Django keeps connections by thread, and asgiref gives a thread to each key that it finds in a
    context variable. A thread per body would connect anew for each; so bodies share a few.
    """

    def __init__(self) -> None:
        self.runs = 0
        self._key = ThreadSensitiveContext()
        self._idle_timer: asyncio.TimerHandle | None = None

    def enter(self) -> None:
        """Let the present task use this thread."""
        self.runs += 1
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        SyncToAsync.thread_sensitive_context.set(self._key)

    def leave(self) -> None:
        """The task has ended; an idle thread closes what is past its age."""
        self.runs -= 1
        if self.runs == 0 and self._has_thread:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(2 * connections.KEEP_SECONDS, self._close_idle)

    async def tidy(self) -> list[str]:
        """Clean up behind a body, and return the aliases on which it left a transaction open."""
        return await sync_to_async(connections.tidy)() if self._has_thread else []

    async def close(self) -> None:
        """Close the thread's connections, at the end of the loop."""
        if self._has_thread:
            SyncToAsync.thread_sensitive_context.set(self._key)
            await sync_to_async(connections.close_all)()
            SyncToAsync.context_to_thread_executor.pop(self._key).shutdown(wait=False)

    @property
    def _has_thread(self) -> bool:
        return self._key in SyncToAsync.context_to_thread_executor

    def _close_idle(self) -> None:
        # Straight to the thread: nobody waits for it.
        SyncToAsync.context_to_thread_executor[self._key].submit(connections.close_idle)


class AsyncCrew:
    """Runs async bodies beside each other on one loop, in a thread of its own.

    Args:
        size: so many bodies are on the loop at once; further claims wait in line.
        lanes: so many threads serve what they do synchronously.
        perform: runs one claim in the present task and returns what became of it.
        on_end: takes that, in the loop's thread; before it the run is still ``running``.
        on_idle: called when the last body has ended and no claim waits.
        on_room: called when a body has ended on a loop that was full.
    """

    def __init__(
        self,
        size: int,
        *,
        lanes: int,
        perform: Callable[[Run, Tidy], Awaitable[Ending]],
        on_end: Callable[[Run, Ending], None],
        on_idle: Callable[[], None],
        on_room: Callable[[], None],
        on_bug: Callable[[], None],
    ) -> None:
        self.size = size
        self._perform = perform
        self._on_end = on_end
        self._on_idle = on_idle
        self._on_room = on_room
        self._on_bug = on_bug
        self._lanes = [Lane() for _ in range(lanes)]
        self._lock = Lock()
        self._unstarted: deque[Run] = deque()
        # By identity: after a lost lease the same job may be here twice.
        self._running: dict[int, Run] = {}
        # The loop itself holds its tasks weakly.
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self._ended = False
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name="jobs-loop", daemon=True)

    def start(self) -> None:
        """Start the loop."""
        self._thread.start()

    def close(self, *, timeout: float) -> None:
        """End the loop once nothing is left on it; a body that still runs is left to itself."""
        self._closing = True
        if self._thread.is_alive():
            self._call(self._begin)
            self._thread.join(timeout)
        elif not self._loop.is_closed():
            self._loop.close()

    def take(self, runs: list[Run]) -> list[Run]:
        """Take the runs of async bodies, and return the others; called by any thread."""
        others = []
        count = 0
        with self._lock:
            for run in runs:
                if is_async(run.claim):
                    self._unstarted.append(run)
                    count += 1
                else:
                    others.append(run)
        if count:
            self._call(self._begin)
        return others

    def take_unstarted(self) -> list[Claim]:
        """Take every claim back whose body has not begun."""
        with self._lock:
            taken = [run.claim for run in self._unstarted]
            self._unstarted.clear()
        return taken

    def running(self) -> list[Run]:
        """Return the bodies that run now."""
        with self._lock:
            return list(self._running.values())

    def here(self) -> list[Run]:
        """Return what runs or waits here."""
        with self._lock:
            return [*self._unstarted, *self._running.values()]

    def unstarted(self) -> list[Claim]:
        """Return the claims whose bodies have not begun."""
        with self._lock:
            return [run.claim for run in self._unstarted]

    @property
    def room(self) -> int:
        """How many more bodies would begin at once."""
        with self._lock:
            return max(0, self.size - len(self._unstarted) - len(self._running))

    def _call(self, call: Callable[[], None]) -> None:
        # A loop that has ended has nothing left to do.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    def _run(self) -> None:
        try:
            while not self._ended:
                self._run_on()
        except BaseException:
            logger.exception("the event loop of this worker failed; the worker stops")
            self._on_bug()
        finally:
            self._loop.close()

    def _run_on(self) -> None:
        try:
            self._loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            # Of a task that a body started: asyncio tells the body, and ends the loop besides.
            logger.warning("a task of a body tried to end the process")

    def _begin(self) -> None:
        """On the loop: start what there is room for, or end."""
        while (run := self._next()) is not None:
            # A context of its own: what a body sets in context variables ends with it.
            task = self._loop.create_task(self._serve(run), context=copy_context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._closing and not self.here():
            closing = self._loop.create_task(self._end(), context=copy_context())
            self._tasks.add(closing)

    def _next(self) -> Run | None:
        with self._lock:
            if not self._unstarted or len(self._running) >= self.size:
                return None
            run = self._unstarted.popleft()
            run.started = time.monotonic()
            self._running[id(run)] = run
            return run

    async def _serve(self, run: Run) -> None:
        lane = min(self._lanes, key=lambda one: one.runs)
        lane.enter()
        try:
            self._on_end(run, await self._perform(run, lane.tidy))
        except BaseException:
            logger.exception("a task of this worker failed; the worker stops")
            self._on_bug()
        finally:
            self._forget(run)
            self._begin()
        try:
            # Also behind a body that failed; its query may still run in that thread.
            await lane.tidy()
        finally:
            lane.leave()

    def _forget(self, run: Run) -> None:
        with self._lock:
            was_full = len(self._running) >= self.size
            del self._running[id(run)]
            is_idle = not self._running and not self._unstarted
        if is_idle:
            self._on_idle()
        if was_full:
            self._on_room()

    async def _end(self) -> None:
        for lane in self._lanes:
            await lane.close()
        self._ended = True
        self._loop.stop()


def is_async(claim: Claim) -> bool:
    """Whether a claim's body is an ``async def``."""
    try:
        return find_job(claim.name).is_async
    except JobUnknown:
        return False
