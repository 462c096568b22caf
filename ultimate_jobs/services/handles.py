"""What an enqueue answers: a frozen handle on one run."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import connections

from ultimate_jobs.drivers import current_driver
from ultimate_jobs.errors import JobFailed, JobNotFound, ResultInTransaction, ResultTimeout
from ultimate_jobs.states import FINAL, JobState
from ultimate_jobs.types import ANY_TENANT, EnqueueAnswer, JobRecord

POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class RunHandle:
    """A run that was asked for.

    Attributes:
        id: the stored job; after a dedupe, the live job that holds the key.
        deduped: ``None`` where the enqueue was staged and is not yet known.
        state: the job's state when the enqueue answered.
        same_input: whether the live job has the inputs that were asked for; ``None`` if staged.
    """

    id: UUID
    run_id: UUID
    deduped: bool | None
    state: JobState
    same_input: bool | None

    @classmethod
    def of(cls, answer: EnqueueAnswer) -> RunHandle:
        return cls(answer.id, answer.run_id, answer.deduped, answer.state, answer.same_input)

    def result(self, timeout: float | timedelta = 30.0) -> Any:
        """Wait until the run has ended and return what its body returned.

        Args:
            timeout: seconds or a timedelta.

        Raises:
            JobFailed: it ended ``dead`` or ``cancelled``.
            ResultTimeout: it is not over yet.
            ResultInTransaction: called inside the transaction that hides the end.
            JobNotFound: the job was never committed, or retention removed it.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
        self._refuse_open_transaction()
        deadline = time.monotonic() + seconds
        while True:
            record = self._record()
            if record.state in FINAL:
                return self._value(record)
            if time.monotonic() >= deadline:
                raise ResultTimeout(
                    job_id=self.id, state=record.state.value, waited_seconds=seconds
                )
            time.sleep(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))

    async def aresult(self, timeout: float | timedelta = 30.0) -> Any:
        """The async twin of ``result``."""
        return await sync_to_async(self.result, thread_sensitive=False)(timeout)

    def _record(self) -> JobRecord:
        record = current_driver().introspection.get(self.id, tenant=ANY_TENANT)
        if record is None:
            raise JobNotFound(job_id=self.id)
        return record

    def _value(self, record: JobRecord) -> Any:
        if record.state is not JobState.COMPLETED:
            raise JobFailed(job_id=self.id, state=record.state.value)
        return None if record.result is None else json.loads(record.result)

    def _refuse_open_transaction(self) -> None:
        alias = current_driver().alias
        if alias is not None and connections[alias].in_atomic_block:
            raise ResultInTransaction(job_id=self.id, alias=alias)
