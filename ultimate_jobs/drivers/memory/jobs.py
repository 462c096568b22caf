"""The verbs of a job in memory: enqueue, claim, ack, nack, cancel."""

from __future__ import annotations

import heapq
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from ultimate_jobs.clock import to_epoch_ms
from ultimate_jobs.drivers.memory.rows import Rerun, Row, Triple, claim_of
from ultimate_jobs.drivers.memory.store import Store
from ultimate_jobs.errors import JobDuplicate
from ultimate_jobs.states import FINAL, WAITING, JobState
from ultimate_jobs.types import (
    CancelAnswer,
    CancelOutcome,
    Claim,
    ClaimRequest,
    Completion,
    EnqueueAnswer,
    EnqueueRequest,
    Nack,
    OnConflict,
    TenantScope,
    WriteAnswer,
    Written,
)


class MemoryJobs:
    """Five of the six verbs; the sixth, heartbeat, stands with the leases."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def enqueue(
        self, requests: Sequence[EnqueueRequest], *, on_conflict: OnConflict
    ) -> list[EnqueueAnswer]:
        with self._store.lock:
            now = self._store.now()
            if on_conflict is OnConflict.ERROR:
                self._refuse_duplicates(requests)
            return [self._enqueue(request, on_conflict, now) for request in requests]

    def claim(self, request: ClaimRequest) -> list[Claim]:
        with self._store.lock:
            now = self._store.now()
            due = (row for row in self._store.live.values() if _is_claimable(row, request, now))
            return [
                self._claim(row, request.worker, now)
                for row in heapq.nsmallest(request.limit, due, key=_claim_order)
            ]

    def ack(self, worker: UUID, completions: Sequence[Completion]) -> list[WriteAnswer]:
        with self._store.lock:
            now = self._store.now()
            return [self._ack(worker, completion, now) for completion in completions]

    def nack(self, worker: UUID, nacks: Sequence[Nack]) -> list[WriteAnswer]:
        with self._store.lock:
            now = self._store.now()
            return [self._nack(worker, nack, now) for nack in nacks]

    def cancel(self, ids: Sequence[UUID], *, tenant: TenantScope, by: str) -> list[CancelAnswer]:
        with self._store.lock:
            now = self._store.now()
            return [self._cancel(job_id, tenant, by, now) for job_id in ids]

    def _refuse_duplicates(self, requests: Sequence[EnqueueRequest]) -> None:
        asked: dict[Triple, UUID] = {}
        for request in requests:
            holder = self._holder(request)
            if holder is not None and holder.id != request.id:
                raise JobDuplicate(job=request.name, job_id=holder.id, state=holder.state)
            first = asked.setdefault(_triple(request), request.id)
            if first != request.id:
                raise JobDuplicate(job=request.name, job_id=first, state="of the same list")

    def _holder(self, request: EnqueueRequest) -> Row | None:
        # An id that was stored before is the same request delivered again, also after its end.
        return self._store.rows.get(request.id) or self._store.live.get(_triple(request))

    def _enqueue(self, request: EnqueueRequest, on_conflict: OnConflict, now: int) -> EnqueueAnswer:
        holder = self._holder(request)
        if holder is None:
            row = self._store.insert(request, run_at=_start(request, now), now=now)
            return EnqueueAnswer(row.id, row.run_id, False, row.state, True)
        is_other = holder.id != request.id
        if on_conflict is OnConflict.RERUN and is_other and holder.state is JobState.RUNNING:
            holder.rerun = Rerun(request, run_at=_start(request, now))
        return EnqueueAnswer(
            id=holder.id,
            run_id=holder.run_id,
            deduped=True,
            state=holder.state,
            same_input=_is_same_json(holder.payload, request.payload),
        )

    def _claim(self, row: Row, worker: UUID, now: int) -> Claim:
        row.state = JobState.RUNNING
        row.worker = worker
        row.token += 1
        row.attempt += 1
        row.claimed_at = row.updated_at = now
        return claim_of(row, worker=worker)

    def _ack(self, worker: UUID, completion: Completion, now: int) -> WriteAnswer:
        row = self._store.claimed(completion.id, worker=worker, token=completion.token)
        if row is None:
            return WriteAnswer(completion.id, completion.token, Written.LOST)
        if row.cancel_requested_at is not None:
            self._store.record(row, "cancelled", now=now, worker=worker)
            self._store.finish(row, JobState.CANCELLED, now=now)
        else:
            row.result = completion.result
            self._store.finish(row, JobState.COMPLETED, now=now)
        return WriteAnswer(row.id, completion.token, Written.DONE, row.state)

    def _nack(self, worker: UUID, nack: Nack, now: int) -> WriteAnswer:
        row = self._store.claimed(nack.id, worker=worker, token=nack.token)
        if row is None:
            return WriteAnswer(nack.id, nack.token, Written.LOST)
        state = _bucket(row, nack)
        if nack.failure is not None:
            row.last_error = f"{nack.failure.error_class}: {nack.failure.message}"
        event = _nack_event(state, nack)
        if event is not None:
            self._store.record(row, event, now=now, detail=_failure_detail(nack), worker=worker)
        if not nack.counts_as_attempt:
            row.take_attempt_back()
        if state in FINAL:
            self._store.finish(row, state, now=now)
        else:
            self._store.give_back(row, state, now=now)
            _postpone(row, nack, now)
        return WriteAnswer(row.id, nack.token, Written.DONE, row.state)

    def _cancel(self, job_id: UUID, tenant: TenantScope, by: str, now: int) -> CancelAnswer:
        row = self._store.rows.get(job_id)
        if row is None or not row.is_within(tenant):
            return CancelAnswer(job_id, CancelOutcome.NOT_FOUND)
        if row.state in FINAL:
            return CancelAnswer(job_id, CancelOutcome.ALREADY_FINAL, row.state)
        if row.state is JobState.RUNNING:
            if row.cancel_requested_at is None:
                self._request_cancel(row, "cancel_requested", by, now)
            return CancelAnswer(job_id, CancelOutcome.REQUESTED, row.state)
        self._request_cancel(row, "cancelled", by, now)
        self._store.finish(row, JobState.CANCELLED, now=now)
        return CancelAnswer(job_id, CancelOutcome.CANCELLED, row.state)

    def _request_cancel(self, row: Row, event: str, by: str, now: int) -> None:
        row.cancel_requested_at = row.updated_at = now
        self._store.record(row, event, now=now, detail={"by": by}, worker=row.worker)


def _triple(request: EnqueueRequest) -> Triple:
    return (request.name, request.tenant or "", request.key)


def _start(request: EnqueueRequest, now: int) -> int:
    if request.run_after is not None:
        return to_epoch_ms(request.run_after)
    return now + request.delay_ms


def _is_claimable(row: Row, request: ClaimRequest, now: int) -> bool:
    return (
        row.state in WAITING
        and row.run_at <= now
        and row.name in request.names
        and (request.queues is None or row.queue in request.queues)
    )


def _claim_order(row: Row) -> tuple[int, int, UUID]:
    return (-row.priority, row.due_at, row.id)


def _bucket(row: Row, nack: Nack) -> JobState:
    if row.cancel_requested_at is not None:
        return JobState.CANCELLED
    if nack.dead_letter:
        return JobState.DEAD
    return JobState.SUSPENDED if nack.park else JobState.READY


def _postpone(row: Row, nack: Nack, now: int) -> None:
    """Move the wait; a shed is owed since before, so only a failure or a park moves ``due_at``."""
    row.run_at = now + nack.delay_ms
    if nack.counts_as_attempt or nack.park:
        row.due_at = row.run_at


def _nack_event(state: JobState, nack: Nack) -> str | None:
    """Name what a nack leaves in the history; a shed and a hand-back leave nothing."""
    if state is JobState.READY:
        return None if nack.failure is None else "failed"
    return "parked" if state is JobState.SUSPENDED else state.value


def _failure_detail(nack: Nack) -> dict[str, Any]:
    if nack.failure is None:
        return {}
    return {
        "error_class": nack.failure.error_class,
        "message": nack.failure.message,
        "traceback": nack.failure.traceback,
        "delay_ms": nack.delay_ms,
        "counted": nack.counts_as_attempt,
    }


def _is_same_json(first: str, second: str) -> bool:
    """Compare two JSON texts by value, as jsonb does: 1 is 1.0 and never ``true``."""
    return bool(_parse(first) == _parse(second))


def _parse(text: str) -> Any:
    return json.loads(text, parse_int=_number, parse_float=_number)


def _number(text: str) -> tuple[str, Decimal]:
    # Python holds 1 == True; a tuple equals no other JSON value.
    return ("number", Decimal(text))
