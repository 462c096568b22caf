"""Ack, nack and cancel on PostgreSQL; each one statement over arrays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol
from uuid import UUID

from ultimate_jobs.drivers.postgres.rows import job_state
from ultimate_jobs.drivers.postgres.statements import Statements, numbers, scope, texts, uuids
from ultimate_jobs.states import FINAL, JobState
from ultimate_jobs.types import (
    CancelAnswer,
    CancelOutcome,
    Completion,
    Failure,
    Nack,
    TenantScope,
    WriteAnswer,
    Written,
)


class _Fenced(Protocol):
    @property
    def id(self) -> UUID: ...
    @property
    def token(self) -> int: ...


def ack(run: Statements, worker: UUID, completions: Sequence[Completion]) -> list[WriteAnswer]:
    """Complete claims, matched on worker and token."""
    if not completions:
        return []
    rows = run.rows(
        "endings.ack",
        worker=worker,
        ids=uuids(one.id for one in completions),
        tokens=numbers(one.token for one in completions),
        results=texts(one.result for one in completions),
    )
    [count] = [number for id_, number, _ in rows if id_ is None]
    named = [row for row in rows if row[0] is not None]
    if count < len(completions):
        return _answers(run, worker, completions, named)
    states = {id_: JobState(state) for id_, _, state in named}
    if not states:
        done = JobState.COMPLETED
        return [WriteAnswer(one.id, one.token, Written.DONE, done) for one in completions]
    return [
        WriteAnswer(one.id, one.token, Written.DONE, states.get(one.id, JobState.COMPLETED))
        for one in completions
    ]


class PostgresAtomic:
    """Completing a job in the transaction of its own body."""

    def __init__(self, run: Statements) -> None:
        self._run = run

    def complete(self, worker: UUID, completion: Completion) -> bool:
        rows = self._run.rows(
            "endings.ack_and_wait",
            worker=worker,
            id=completion.id,
            token=completion.token,
            result=completion.result,
        )
        return bool(rows)


def nack(run: Statements, worker: UUID, nacks: Sequence[Nack]) -> list[WriteAnswer]:
    """Give claims back, matched on worker and token."""
    if not nacks:
        return []
    rows = run.rows(
        "endings.nack",
        worker=worker,
        ids=[one.id for one in nacks],
        tokens=[one.token for one in nacks],
        counts=[one.counts_as_attempt for one in nacks],
        parks=[one.park for one in nacks],
        dead=[one.dead_letter for one in nacks],
        discards=[one.discard for one in nacks],
        delays_ms=[one.delay_ms for one in nacks],
        deferrals=[one.deferral.limit if one.deferral else None for one in nacks],
        reasons=[one.deferral.reason if one.deferral else None for one in nacks],
        errors=[_last_error(one) for one in nacks],
        details=[_detail(one) for one in nacks],
    )
    return _answers(run, worker, nacks, rows)


def _failure(nack: Nack) -> Failure | None:
    """Return what is stored where the nack does not defer."""
    return nack.failure if nack.deferral is None else nack.deferral.spent


def _last_error(nack: Nack) -> str | None:
    failure = _failure(nack)
    return None if failure is None else f"{failure.error_class}: {failure.message}"


def _detail(nack: Nack) -> str | None:
    failure = _failure(nack)
    if failure is None:
        return None
    return json.dumps(
        {
            "error_class": failure.error_class,
            "message": failure.message,
            "traceback": failure.traceback,
            "delay_ms": nack.delay_ms,
            "counted": nack.counts_as_attempt,
        }
    )


def _answers(
    run: Statements,
    worker: UUID,
    asked: Sequence[_Fenced],
    rows: list[tuple[Any, ...]],
) -> list[WriteAnswer]:
    written = {(id_, token): JobState(state) for id_, token, state in rows}
    unwritten = [one for one in asked if (one.id, one.token) not in written]
    busy = _still_mine(run, worker, unwritten) if unwritten else frozenset()
    answers = []
    for one in asked:
        state = written.get((one.id, one.token))
        if state is not None:
            outcome = Written.DONE
        else:
            outcome = Written.BUSY if (one.id, one.token) in busy else Written.LOST
        answers.append(WriteAnswer(id=one.id, token=one.token, outcome=outcome, state=state))
    return answers


def _still_mine(
    run: Statements, worker: UUID, unwritten: Sequence[_Fenced]
) -> frozenset[tuple[UUID, int]]:
    rows = run.rows(
        "endings.still_mine",
        worker=worker,
        ids=[one.id for one in unwritten],
        tokens=[one.token for one in unwritten],
    )
    return frozenset((id_, token) for id_, token in rows)


def cancel(
    run: Statements, ids: Sequence[UUID], *, tenant: TenantScope, by: str
) -> list[CancelAnswer]:
    """End waiting jobs, ask running ones to stop."""
    if not ids:
        return []
    rows = run.rows("endings.cancel", ids=list(ids), by=by, **scope(tenant))
    found = {id_: _cancelled(id_, before, after) for id_, before, after in rows}
    return [found.get(id_) or CancelAnswer(id=id_, outcome=CancelOutcome.NOT_FOUND) for id_ in ids]


def _cancelled(id_: UUID, before: str, after: str) -> CancelAnswer:
    state = job_state(after)
    if job_state(before) in FINAL:
        outcome = CancelOutcome.ALREADY_FINAL
    elif state is JobState.RUNNING:
        outcome = CancelOutcome.REQUESTED
    else:
        outcome = CancelOutcome.CANCELLED
    return CancelAnswer(id=id_, outcome=outcome, state=state)
