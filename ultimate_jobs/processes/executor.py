"""One claim from its row to the write that ends it: find, decode, call, dump, clean up."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync

from ultimate_jobs.errors import TransactionLeftOpen
from ultimate_jobs.interruptions import ClaimLost
from ultimate_jobs.processes import connections
from ultimate_jobs.processes.crew import Run
from ultimate_jobs.registry import JobDefinition, find_job
from ultimate_jobs.retry import Retry
from ultimate_jobs.services import attempts
from ultimate_jobs.services.attempts import Ending
from ultimate_jobs.services.context import JobContext, enter_context
from ultimate_jobs.types import Completion


class Executor:
    """Runs bodies in whatever thread calls it.

    Args:
        stands: whether the lease of a worker id still stands; a body does not start without.
    """

    def __init__(self, *, stands: Callable[[UUID], bool], max_result_bytes: int) -> None:
        self._stands = stands
        self._max_result_bytes = max_result_bytes

    def perform(self, run: Run, *, before: frozenset[str] = frozenset()) -> Ending:
        """Run one claim's body and return what to write; never raises.

        Args:
            before: aliases whose open transaction is the caller's own, as in tests.
        """
        if not self._stands(run.claim.worker):
            # The process was stopped past its lease with this claim in hand.
            run.context.interrupt(ClaimLost())
        retry, ending = self._attempt(run)
        left = connections.tidy(before)
        if left and isinstance(ending, Completion):
            error = TransactionLeftOpen(job=run.claim.name, aliases=left)
            ending = attempts.fail(run.claim, run.context, error, retry=retry)
        return ending

    def _attempt(self, run: Run) -> tuple[Retry, Ending]:
        claim, context = run.claim, run.context
        retry = Retry()
        try:
            context.check()
            definition = find_job(claim.name)
            retry = definition.retry
            inputs = definition.schema.decode(claim.payload)
            # A context of its own: what a body sets in context variables ends with it.
            value = copy_context().run(_call, definition, context, inputs)
        except BaseException as error:
            return retry, attempts.fail(claim, context, error, retry=retry)
        limit = self._max_result_bytes
        return retry, attempts.complete(claim, context, value, job=definition.name, max_bytes=limit)


def _call(definition: JobDefinition, context: JobContext, inputs: dict[str, Any]) -> Any:
    enter_context(context)
    if definition.is_async:
        return async_to_sync(definition.func)(context, **inputs)
    return definition.func(context, **inputs)
