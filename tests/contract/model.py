"""A small model of what a driver promises, written apart from both drivers: rules over a dict.

Instants are spans, because PostgreSQL's time flows between two looks at it. Where a span cannot
decide, the model takes the driver's word, and only there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from ultimate_jobs.records import JobRecord
from ultimate_jobs.types import (
    ANY_TENANT,
    Claim,
    EnqueueAnswer,
    EnqueueRequest,
    Nack,
    OnConflict,
    TenantScope,
)

LIVE = {"ready", "delayed", "running", "suspended"}
FINAL = {"completed", "dead", "cancelled"}
WAITING = {"ready", "delayed", "suspended"}
MILLISECOND = 1.0


@dataclass(frozen=True)
class Moment:
    """An instant of the driver's clock, known to lie between two looks at it."""

    low: float
    high: float

    def plus(self, milliseconds: float) -> Moment:
        return Moment(self.low + milliseconds, self.high + milliseconds)

    def latest(self, other: Moment) -> Moment:
        return Moment(max(self.low, other.low), max(self.high, other.high))

    def covers(self, moment: datetime) -> bool:
        epoch_ms = moment.timestamp() * 1000
        return self.low - MILLISECOND <= epoch_ms <= self.high + MILLISECOND

    def is_past(self, now: Moment) -> bool | None:
        """Say whether this instant has come; ``None`` where it cannot be told."""
        if self.high <= now.low:
            return True
        return False if self.low > now.high else None


@dataclass
class Row:
    """One job as it must be; ``seen`` is what the driver last showed of it."""

    request: EnqueueRequest
    run_id: UUID
    run_at: Moment
    due_at: Moment
    state: str
    attempt: int = 0
    token: int = 0
    lost: int = 0
    retries: int = 0
    worker: UUID | None = None
    cancel: bool = False
    rerun: tuple[EnqueueRequest, Moment] | None = None
    last_error: str | None = None
    result: str | None = None
    events: list[str] = field(default_factory=list)
    seen: JobRecord | None = None

    @property
    def id(self) -> UUID:
        return self.request.id

    @property
    def triple(self) -> tuple[str, str, str]:
        return self.request.name, self.request.tenant or "", self.request.key


class Model:
    """The jobs of one example."""

    def __init__(self, *, max_lost_leases: int, lease_ttl_ms: int) -> None:
        self.rows: dict[UUID, Row] = {}
        self.leases: dict[UUID, Moment] = {}
        self.max_lost_leases = max_lost_leases
        self.lease_ttl_ms = lease_ttl_ms

    def holder(self, triple: tuple[str, str, str]) -> Row | None:
        live = [row for row in self.rows.values() if row.triple == triple and row.state in LIVE]
        assert len(live) <= 1
        return live[0] if live else None

    def enqueue(
        self, requests: Sequence[EnqueueRequest], on_conflict: OnConflict, now: Moment
    ) -> list[EnqueueAnswer] | None:
        """Return the answers, or ``None`` where the list is refused whole."""
        if on_conflict is OnConflict.ERROR and not self._are_all_free(requests):
            return None
        return [self._enqueue(request, on_conflict, now) for request in requests]

    def _are_all_free(self, requests: Sequence[EnqueueRequest]) -> bool:
        triples = [_triple(request) for request in requests]
        is_repeated = len(set(triples)) < len(triples)
        return not is_repeated and not any(self.holder(triple) for triple in triples)

    def _enqueue(
        self, request: EnqueueRequest, on_conflict: OnConflict, now: Moment
    ) -> EnqueueAnswer:
        row = self.holder(_triple(request))
        if row is None:
            row = self._insert(request, now.plus(request.delay_ms), now)
            return EnqueueAnswer(row.id, row.run_id, False, row.state, True)  # type: ignore[arg-type]
        if on_conflict is OnConflict.RERUN and row.state == "running":
            row.rerun = (request, now.plus(request.delay_ms))
        same = row.request.payload == request.payload
        return EnqueueAnswer(row.id, row.run_id, True, row.state, same)  # type: ignore[arg-type]

    def _insert(self, request: EnqueueRequest, start: Moment, now: Moment) -> Row:
        start = start.latest(now)
        state = "delayed" if start.low > now.high else "ready"
        row = Row(request, request.run_id, run_at=start, due_at=start, state=state)
        self.rows[row.id] = row
        return row

    def claimable(self, names: Iterable[str], now: Moment) -> dict[UUID, bool | None]:
        """Return every job that is due, or may be."""
        due = {
            row.id: Moment(seen_at, seen_at).is_past(now)
            for row in self.rows.values()
            if row.state in WAITING and row.request.name in names
            for seen_at in [row.seen.run_at.timestamp() * 1000 if row.seen else row.run_at.low]
        }
        return {job_id: answer for job_id, answer in due.items() if answer is not False}

    def claim(self, claim: Claim) -> None:
        row = self.rows[claim.id]
        row.state, row.worker = "running", claim.worker
        row.token += 1
        row.attempt += 1

    def owned(self, job_id: UUID, worker: UUID, token: int) -> Row | None:
        row = self.rows[job_id]
        mine = (row.state, row.worker, row.token) == ("running", worker, token)
        return row if mine else None

    def ack(self, row: Row, result: str | None, now: Moment) -> str:
        if row.cancel:
            row.events.append("cancelled")
            self._end(row, "cancelled", now)
        else:
            row.result = result
            self._end(row, "completed", now)
        return row.state

    def nack(self, row: Row, nack: Nack, now: Moment) -> str:
        if nack.failure is not None:
            row.last_error = f"{nack.failure.error_class}: {nack.failure.message}"
        if not nack.counts_as_attempt:
            row.attempt = max(row.attempt - 1, 0)
        if row.cancel or nack.dead_letter:
            state = "cancelled" if row.cancel else "dead"
            row.events.append(state)
            self._end(row, state, now)
            return row.state
        row.worker = None
        row.run_at = now.plus(nack.delay_ms)
        if nack.counts_as_attempt or nack.park:
            row.due_at = row.run_at
        row.state = "suspended" if nack.park else "ready"
        if nack.park:
            row.events.append("parked")
        elif nack.failure is not None:
            row.events.append("failed")
        return row.state

    def cancel(self, job_id: UUID, tenant: TenantScope, now: Moment) -> str:
        row = self.rows[job_id]
        if not _visible(row, tenant):
            return "not_found"
        if row.state not in LIVE:
            return "already_final"
        if row.state == "running":
            if not row.cancel:
                row.events.append("cancel_requested")
            row.cancel = True
            return "requested"
        row.events.append("cancelled")
        self._end(row, "cancelled", now)
        return "cancelled"

    def refusal_of_retry(self, job_id: UUID, tenant: TenantScope, *, fresh: bool) -> str | None:
        row = self.rows[job_id]
        if not _visible(row, tenant):
            return "X_JOB_NOT_FOUND"
        if row.state in LIVE or (row.state == "completed" and not fresh):
            return "X_JOB_STATE_REFUSED"
        return None if self.holder(row.triple) is None else "X_JOB_DUPLICATE"

    def retry(self, job_id: UUID, fresh_run_id: UUID | None, now: Moment) -> None:
        row = self.rows[job_id]
        row.state, row.run_at, row.due_at = "ready", now, now
        row.attempt, row.lost, row.worker = 0, 0, None
        row.retries += 1
        row.cancel, row.rerun = False, None
        if fresh_run_id is not None:
            row.run_id, row.result = fresh_run_id, None
        row.events.append("retried")

    def register(self, worker: UUID, now: Moment) -> None:
        self.leases[worker] = now.plus(self.lease_ttl_ms)

    def release(self, worker: UUID) -> None:
        self.leases.pop(worker, None)

    def is_alive(self, worker: UUID | None, now: Moment) -> bool | None:
        ends = self.leases.get(worker) if worker is not None else None
        if ends is None:
            return False
        is_over = ends.is_past(now)
        return None if is_over is None else not is_over

    def stop_requests(self, worker: UUID) -> set[UUID]:
        return {
            row.id
            for row in self.rows.values()
            if row.state == "running" and row.worker == worker and row.cancel
        }

    def abandoned(self, now: Moment) -> dict[UUID, bool | None]:
        """Return every running job whose worker is gone, or may be."""
        alive = {
            row.id: self.is_alive(row.worker, now)
            for row in self.rows.values()
            if row.state == "running"
        }
        return {job_id: answer for job_id, answer in alive.items() if answer is not True}

    def rescue(self, job_id: UUID, now: Moment) -> str:
        row = self.rows[job_id]
        row.lost += 1
        row.attempt = max(row.attempt - 1, 0)
        if row.cancel:
            row.events.append("cancelled")
            self._end(row, "cancelled", now)
        elif row.lost >= self.max_lost_leases:
            row.last_error = f"X_WORKER_GONE: job {row.id} lost its worker"
            row.events.append("dead")
            self._end(row, "dead", now)
        else:
            delay_ms = 0 if row.lost == 1 else min(60_000, 1000 * 2 ** (row.lost - 1))
            row.state, row.worker = "ready", None
            row.run_at = now.plus(delay_ms)
            if delay_ms:
                row.due_at = row.run_at
            row.events.append("rescued")
        return row.state

    def _end(self, row: Row, state: str, now: Moment) -> None:
        row.state = state
        if row.rerun is not None:
            request, start = row.rerun
            self._insert(request, start, now)
            row.events.append("rerun")


def _triple(request: EnqueueRequest) -> tuple[str, str, str]:
    return request.name, request.tenant or "", request.key


def _visible(row: Row, tenant: TenantScope) -> bool:
    return tenant is ANY_TENANT or (row.request.tenant or None) == tenant
