"""The verbs of a job in memory: enqueue, claim, ack, nack, cancel."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from ultimate_jobs.clock import to_epoch_ms
from ultimate_jobs.drivers.memory.rows import Rerun, Row, Triple, claim_of
from ultimate_jobs.drivers.memory.store import Store
from ultimate_jobs.drivers.memory.turns import Turns, in_turn
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
    Failure,
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

    def claim(
        self,
        request: ClaimRequest,
        *,
        turns: Turns | None = None,
        without: tuple[str, ...] = (),
    ) -> list[Claim]:
        """Claim once; ``turns`` carries on the rotation between tenants of earlier claims."""
        with self._store.lock:
            now = self._store.now()
            shut = {*self._store.paused, *without}
            open_rows = (row for row in self._store.live.values() if row.queue not in shut)
            due = (row for row in open_rows if _is_claimable(row, request, now))
            chosen = in_turn(due, limit=request.limit, turns=turns)
            return [self.claim_row(row, request.worker, now) for row in chosen]

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

    def claim_row(self, row: Row, worker: UUID, now: int) -> Claim:
        """Hand one row to a worker; the caller holds the lock."""
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
        defers = nack.deferral is not None and row.deferrals < nack.deferral.limit
        if defers:
            row.deferrals += 1
        elif (failure := _failure(nack)) is not None:
            row.last_error = f"{failure.error_class}: {failure.message}"
        event = _nack_event(state, nack)
        if event is not None:
            detail = _deferral_detail(row, nack) if defers else _failure_detail(nack)
            self._store.record(row, event, now=now, detail=detail, worker=worker)
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


def _bucket(row: Row, nack: Nack) -> JobState:
    if row.cancel_requested_at is not None or nack.discard:
        return JobState.CANCELLED
    spent = nack.deferral is not None and row.deferrals >= nack.deferral.limit
    if nack.dead_letter or spent:
        return JobState.DEAD
    return JobState.SUSPENDED if nack.park else JobState.READY


def _postpone(row: Row, nack: Nack, now: int) -> None:
    """Move the wait; a shed is owed since before, and alone leaves ``due_at``."""
    row.run_at = now + max(0, nack.delay_ms)
    if nack.counts_as_attempt or nack.park or nack.deferral is not None:
        row.due_at = row.run_at


def _nack_event(state: JobState, nack: Nack) -> str | None:
    """Name what a nack leaves in the history; a shed and a hand-back leave nothing."""
    if state is JobState.CANCELLED and nack.discard:
        return "discarded"
    if state in FINAL:
        return state.value
    if nack.deferral is not None:
        return "deferred"
    if state is JobState.SUSPENDED:
        return "parked"
    return None if nack.failure is None else "failed"


def _failure(nack: Nack) -> Failure | None:
    """Return what is stored where the nack does not defer."""
    return nack.failure if nack.deferral is None else nack.deferral.spent


def _deferral_detail(row: Row, nack: Nack) -> dict[str, Any]:
    return {
        "reason": "" if nack.deferral is None else nack.deferral.reason,
        "delay_ms": max(0, nack.delay_ms),
        "counted": nack.counts_as_attempt,
        "deferrals": row.deferrals,
    }


def _failure_detail(nack: Nack) -> dict[str, Any]:
    failure = _failure(nack)
    if failure is None:
        return {}
    return {
        "error_class": failure.error_class,
        "message": failure.message,
        "traceback": failure.traceback,
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
