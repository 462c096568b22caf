"""What an enqueue answers: a frozen handle on one run."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async

from ultimate_jobs.drivers import current_driver
from ultimate_jobs.errors import (
    JobFailed,
    JobNotFound,
    JobOptionInvalid,
    ResultInTransaction,
    ResultTimeout,
)
from ultimate_jobs.records import JobRecord
from ultimate_jobs.services.placement import open_connections
from ultimate_jobs.states import FINAL, JobState
from ultimate_jobs.types import ANY_TENANT, EnqueueAnswer

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
            timeout: seconds or a timedelta; 0 looks once.

        Raises:
            JobFailed: it ended ``dead`` or ``cancelled``.
            ResultTimeout: it is not over yet.
            ResultInTransaction: it has not ended, and the open transaction hides its end.
            JobNotFound: the job was never committed, or retention removed it.
        """
        seconds = _seconds(timeout)
        deadline = time.monotonic() + seconds
        while (record := self._look()) is None or record.state not in FINAL:
            time.sleep(self._pause(record, deadline, seconds))
        return self._value(record)

    async def aresult(self, timeout: float | timedelta = 30.0) -> Any:
        """The async twin of ``result``; between two looks it holds no thread."""
        seconds = _seconds(timeout)
        deadline = time.monotonic() + seconds
        look = sync_to_async(self._look)
        while (record := await look()) is None or record.state not in FINAL:
            await asyncio.sleep(self._pause(record, deadline, seconds))
        return self._value(record)

    def _look(self) -> JobRecord | None:
        """Return the job; ``None`` where it was staged and has not yet reached its queue."""
        record = current_driver().introspection.get(self.id, tenant=ANY_TENANT)
        if record is None and self.deduped is not None:
            raise JobNotFound(job_id=self.id)
        if record is None or record.state not in FINAL:
            self._refuse_open_transaction()
        return record

    def _refuse_open_transaction(self) -> None:
        home = current_driver().alias
        for connection in open_connections():
            if connection.alias == home or self.deduped is None:
                raise ResultInTransaction(job_id=self.id, alias=connection.alias)

    def _pause(self, record: JobRecord | None, deadline: float, seconds: float) -> float:
        left = deadline - time.monotonic()
        if left <= 0:
            state = "staged" if record is None else record.state.value
            raise ResultTimeout(job_id=self.id, state=state, waited_seconds=seconds)
        return min(POLL_SECONDS, left)

    def _value(self, record: JobRecord) -> Any:
        if record.state is not JobState.COMPLETED:
            raise JobFailed(job_id=self.id, state=record.state.value)
        return None if record.result is None else json.loads(record.result)


def _seconds(timeout: object) -> float:
    if isinstance(timeout, timedelta):
        return max(0.0, timeout.total_seconds())
    if isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout == timeout:
        return max(0.0, float(timeout))
    raise JobOptionInvalid(
        option="timeout",
        problem="of result() is neither seconds nor a timedelta",
        fix="call .result(timeout=30)",
    )
