"""One claim from its row to the write that ends it: find, decode, call, dump, clean up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync, sync_to_async
from django.db import transaction

from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.errors import DriverUnsupported, TransactionLeftOpen
from ultimate_jobs.hooks.middleware import enter_attempt
from ultimate_jobs.interruptions import ClaimLost
from ultimate_jobs.processes import connections
from ultimate_jobs.processes.crew import Run
from ultimate_jobs.processes.deadlines import Deadlines, Watch
from ultimate_jobs.registry import JobDefinition, find_job
from ultimate_jobs.retry import Retry
from ultimate_jobs.services import attempts
from ultimate_jobs.services.attempts import Committed, Doubtful, Ending
from ultimate_jobs.services.context import JobContext, enter_context
from ultimate_jobs.signals import atell, job_started, tell
from ultimate_jobs.types import Completion, Nack

Tidy = Callable[[], Awaitable[list[str]]]
"""Cleans up behind an async body, and returns the aliases on which it left a transaction open."""

# What counts for a claim whose declaration was not found.
_UNDECLARED = Retry()

_TIDY: Tidy = sync_to_async(connections.tidy)


@dataclass(frozen=True, slots=True)
class _Call:
    """A body with its inputs, ready to be called."""

    run: Run
    definition: JobDefinition
    inputs: dict[str, Any]


class _Undo(Exception):
    """Rolls an atomic body's transaction back, because it ends like this instead."""

    def __init__(self, ending: Nack | None) -> None:
        super().__init__()
        self.ending = ending


class Executor:
    """Runs bodies in whatever thread calls it, async ones on whatever event loop.

    Args:
        stands: whether the lease of a worker id still stands; a body does not start without.
        driver: completes atomic jobs; without one they are refused.
        deadlines: watches the bodies that have a timeout; without it they have none.
    """

    def __init__(
        self,
        *,
        stands: Callable[[UUID], bool],
        max_result_bytes: int,
        driver: Driver | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        self._stands = stands
        self._max_result_bytes = max_result_bytes
        self._driver = driver
        self._deadlines = deadlines

    def perform(self, run: Run, *, before: frozenset[str] = frozenset()) -> Ending:
        """Run one claim's body and return what to write; never raises.

        Args:
            before: aliases whose open transaction is the caller's own, as in tests.
        """
        call = self._prepare(run)
        if not isinstance(call, _Call):
            return call
        tell(job_started, run.claim)
        watch = None
        if self._deadlines is not None and call.definition.timeout_ms is not None:
            watch = self._deadlines.watch(run, call.definition.timeout_ms / 1000)
        if call.definition.atomic:
            ending = self._perform_atomically(call, watch, before)
        else:
            ending = self._perform(call, watch)
        if watch is not None and watch.told:
            connections.discard_all(but=before)
        left = connections.tidy(before)
        if left and isinstance(ending, Completion):
            ending = self._left_open(call, left)
        elif left and isinstance(ending, Committed):
            # Left by a callback after the commit, or in place of it.
            ending = Doubtful(self._left_open(call, left))
        return self._settle(watch, ending)

    async def perform_async(self, run: Run, tidy: Tidy = _TIDY) -> Ending:
        """Run one claim's ``async def`` in the present task and return what to write.

        An interruption of its context cancels the task at the body's next await.

        Args:
            tidy: cleans the connections that the body used; by default those of the thread that
                all sync code of this loop shares.
        """
        call = self._prepare(run)
        if not isinstance(call, _Call):
            return call
        await atell(job_started, run.claim)
        watch = None
        if self._deadlines is not None and call.definition.timeout_ms is not None:
            watch = self._deadlines.watch_async(run, call.definition.timeout_ms / 1000)
        ending: Ending
        try:
            value = await _await(call, watch)
        except BaseException as error:
            ending = self._failed(call, error)
        else:
            ending = self._completed(call, value)
        if isinstance(ending, Completion):
            left = await tidy()
            if left:
                ending = self._left_open(call, left)
        return self._settle(watch, ending)

    def _prepare(self, run: Run) -> _Call | Nack | None:
        claim, context = run.claim, run.context
        if not self._stands(claim.worker):
            # The process was stopped past its lease with this claim in hand.
            context.interrupt(ClaimLost())
        retry = _UNDECLARED
        try:
            context.check()
            definition = find_job(claim.name)
            retry = definition.retry
            return _Call(run, definition, definition.schema.decode(claim.payload))
        except BaseException as error:
            if context.interrupted:
                return attempts.fail(claim, context, error, retry=retry)
            return attempts.again(claim, error, retry=retry)

    def _perform(self, call: _Call, watch: Watch | None) -> Completion | Nack | None:
        try:
            value = _body(call, watch)
        except BaseException as error:
            return self._failed(call, error)
        return self._completed(call, value)

    def _perform_atomically(
        self, call: _Call, watch: Watch | None, before: frozenset[str]
    ) -> Ending:
        """Commit the body and its completion as one; whatever else it ends in is rolled back."""
        written = False
        try:
            driver = self._atomic_driver()
            with transaction.atomic(using=driver.alias):
                completion = self._perform_inside(call, watch, driver, before)
                _complete_inside(call, driver, completion)
                written = True
        except _Undo as undo:
            return undo.ending
        except BaseException as error:
            ending = self._failed(call, error)
            return Doubtful(ending) if written and ending is not None else ending
        return Committed()

    def _perform_inside(
        self, call: _Call, watch: Watch | None, driver: Driver, before: frozenset[str]
    ) -> Completion:
        try:
            value = _body(call, watch)
        except BaseException as error:
            raise _Undo(self._failed(call, error)) from error
        ending = self._completed(call, value)
        if not isinstance(ending, Completion):
            raise _Undo(ending)
        left = connections.left_open(before | {str(driver.alias)})
        if left:
            raise _Undo(self._left_open(call, left))
        return ending

    def _atomic_driver(self) -> Driver:
        driver = self._driver
        if driver is not None and driver.supports_atomic:
            return driver
        name = "none" if driver is None else driver.name
        raise DriverUnsupported(driver=name, feature="atomic=True")

    def _failed(self, call: _Call, error: BaseException) -> Nack | None:
        run = call.run
        return attempts.fail(run.claim, run.context, error, retry=call.definition.retry)

    def _completed(self, call: _Call, value: object) -> Completion | Nack | None:
        run, definition = call.run, call.definition
        return attempts.complete(
            run.claim,
            run.context,
            value,
            job=definition.name,
            max_bytes=self._max_result_bytes,
            retry=definition.retry,
        )

    def _left_open(self, call: _Call, aliases: list[str]) -> Nack:
        claim, retry = call.run.claim, call.definition.retry
        error = TransactionLeftOpen(job=claim.name, aliases=aliases)
        return attempts.again(claim, error, retry=retry)

    def _settle(self, watch: Watch | None, ending: Ending) -> Ending:
        """Give up the ending of an attempt that was fenced out meanwhile."""
        if watch is None or self._deadlines is None:
            return ending
        self._deadlines.forget(watch)
        return ending if watch.take_ending() else None


def _complete_inside(call: _Call, driver: Driver, completion: Completion) -> None:
    if not driver.atomic.complete(call.run.claim.worker, completion):
        # Lost, or to be cancelled: the driver tells which as it is handed back.
        raise _Undo(attempts.hand_back(call.run.claim))


def _body(call: _Call, watch: Watch | None) -> Any:
    # A context of its own: what a body sets in context variables ends with it.
    own = copy_context()
    if watch is None:
        return own.run(_enter, call)
    return watch.call(lambda: own.run(_enter, call))


def _enter(call: _Call) -> Any:
    definition, context = call.definition, call.run.context
    enter_context(context)
    around = enter_attempt(context)
    if around is None:
        return _call(definition, context, call.inputs)
    with around:
        return _call(definition, context, call.inputs)


def _call(definition: JobDefinition, context: JobContext, inputs: dict[str, Any]) -> Any:
    if definition.is_async:
        return async_to_sync(definition.func)(context, **inputs)
    return definition.func(context, **inputs)


class _Stopper:
    """Cancels the present task when its context is interrupted, but only while the body runs."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._is_armed = True
        context.on_interrupt(self._call)

    def disarm(self) -> None:
        """The body is over; what comes after it is not to be cancelled."""
        self._is_armed = False
        self._context.on_interrupt(None)
        while self._task is not None and self._task.cancelling():
            self._task.uncancel()

    def _call(self) -> None:
        # From any thread; a loop that has ended has nothing left to stop.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._is_armed and self._task is not None:
            self._context.remember_interrupted()
            self._task.cancel()


async def _await(call: _Call, watch: Watch | None) -> Any:
    context = call.run.context
    enter_context(context)
    stopper = _Stopper(context)
    try:
        body = _enter_async(call)
        return await (body if watch is None else watch.wait_for(body))
    finally:
        stopper.disarm()
        enter_context(None)


async def _enter_async(call: _Call) -> Any:
    context = call.run.context
    around = enter_attempt(context)
    if around is None:
        return await call.definition.func(context, **call.inputs)
    with around:
        return await call.definition.func(context, **call.inputs)
