"""Enqueue on PostgreSQL: insert, and where a live job holds the key, answer for it.

Crash windows: none of its own. Every write is in the caller's transaction, or is one statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import psycopg
from django.db import transaction
from django.db.utils import OperationalError

from ultimate_jobs.drivers.postgres.statements import Statements, moments, numbers, texts, uuids
from ultimate_jobs.errors import EnqueueContended, EnqueueSerialization, JobDuplicate
from ultimate_jobs.states import JobState
from ultimate_jobs.types import EnqueueAnswer, EnqueueRequest, OnConflict

CHUNK = 1000
# Each turn needs the holder to end between our insert and our look. A hundred in a row is a fault.
MAX_TURNS = 100

# Each column of a request, and how many of its values are written as one array.
_ARRAYS: dict[str, Callable[[Iterable[Any]], str]] = {
    "id": uuids,
    "run_id": uuids,
    "name": texts,
    "queue": texts,
    "tenant": texts,
    "key": texts,
    "payload": texts,
    "priority": numbers,
    "max_attempts": numbers,
    "run_after": moments,
    "delay_ms": numbers,
    "traceparent": texts,
    "enqueued_by": texts,
    "serial_key": texts,
}


def enqueue(
    run: Statements, requests: Sequence[EnqueueRequest], *, on_conflict: OnConflict
) -> list[EnqueueAnswer]:
    """Store the requests, one round trip per thousand where no key is held."""
    # One lock order for every batch, or two that share keys deadlock.
    order = sorted(range(len(requests)), key=lambda index: _namespace(requests[index]))
    answers: dict[int, EnqueueAnswer] = {}
    several_statements = len(requests) > CHUNK or on_conflict is OnConflict.ERROR
    whole = transaction.atomic(using=run.alias) if several_statements else nullcontext()
    with whole:
        for start in range(0, len(order), CHUNK):
            chunk = order[start : start + CHUNK]
            found = _enqueue_chunk(run, [requests[index] for index in chunk], on_conflict)
            answers.update(zip(chunk, found, strict=True))
    return [answers[index] for index in range(len(requests))]


def _namespace(request: EnqueueRequest) -> tuple[str, str, str]:
    return request.name, request.tenant or "", request.key


def _enqueue_chunk(
    run: Statements, requests: list[EnqueueRequest], on_conflict: OnConflict
) -> list[EnqueueAnswer]:
    answers: list[EnqueueAnswer | None] = [None] * len(requests)
    missing = list(range(len(requests)))
    isolation: str | None = None
    for _ in range(MAX_TURNS):
        asked = [requests[index] for index in missing]
        if isolation is None or isolation == "read committed":
            found = _turn(run, asked, on_conflict, any_isolation=False)
        else:
            found = _turn_in_savepoint(run, asked, on_conflict, isolation)
        for index, answer in zip(list(missing), found, strict=True):
            answers[index] = answer
        missing = [index for index in missing if answers[index] is None]
        if not missing:
            return [answer for answer in answers if answer is not None]
        if isolation is None:
            isolation = run.rows("enqueue.isolation")[0][0]
    raise EnqueueContended(job=requests[missing[0]].name, tries=MAX_TURNS)


def _turn_in_savepoint(
    run: Statements, requests: list[EnqueueRequest], on_conflict: OnConflict, isolation: str
) -> list[EnqueueAnswer | None]:
    """Above READ COMMITTED the snapshot may hide the holder; a savepoint keeps the rest."""
    alone = not run.connection.in_atomic_block
    try:
        with transaction.atomic(using=run.alias):
            found = _turn(run, requests, on_conflict, any_isolation=True)
            # A holder that neither blocks the insert nor can be seen has ended since our snapshot.
            if None in found and not alone:
                raise EnqueueSerialization(job=requests[0].name, isolation=isolation)
            return found
    except OperationalError as error:
        if not isinstance(error.__cause__, psycopg.errors.SerializationFailure):
            raise
        if alone:
            return [None] * len(requests)
        raise EnqueueSerialization(job=requests[0].name, isolation=isolation) from error


def _turn(
    run: Statements,
    requests: list[EnqueueRequest],
    on_conflict: OnConflict,
    *,
    any_isolation: bool,
) -> list[EnqueueAnswer | None]:
    """Insert what is free, then look who holds the rest; ``None`` for a key that is neither."""
    stored = _insert(run, requests, any_isolation=any_isolation)
    answers = [stored.get(request.id) for request in requests]
    for find in (_share_waiting, _rerun if on_conflict is OnConflict.RERUN else _find_running):
        held = [index for index, answer in enumerate(answers) if answer is None]
        if not held:
            break
        for index, answer in zip(held, find(run, [requests[i] for i in held]), strict=True):
            answers[index] = answer
            if answer is not None and on_conflict is OnConflict.ERROR:
                raise JobDuplicate(
                    job=requests[index].name, job_id=answer.id, state=answer.state.value
                )
    return answers


def _insert(
    run: Statements, requests: list[EnqueueRequest], *, any_isolation: bool
) -> dict[object, EnqueueAnswer]:
    if len(requests) == 1 and requests[0].run_after is None and not requests[0].delay_ms:
        params = {column: getattr(requests[0], column) for column in _ARRAYS}
        rows = run.rows("enqueue.one", any_isolation=any_isolation, **params)
    else:
        arrays = {
            column: write(getattr(request, column) for request in requests)
            for column, write in _ARRAYS.items()
        }
        rows = run.rows("enqueue.many", any_isolation=any_isolation, **arrays)
    return {
        id_: EnqueueAnswer(
            id=id_, run_id=run_id, deduped=False, state=JobState(state), same_input=True
        )
        for id_, run_id, state in rows
    }


def _share_waiting(run: Statements, requests: list[EnqueueRequest]) -> list[EnqueueAnswer | None]:
    return _holders(run, "enqueue.share_waiting", requests)


def _find_running(run: Statements, requests: list[EnqueueRequest]) -> list[EnqueueAnswer | None]:
    return _holders(run, "enqueue.find_running", requests)


def _rerun(run: Statements, requests: list[EnqueueRequest]) -> list[EnqueueAnswer | None]:
    answers: list[EnqueueAnswer | None] = []
    for request in requests:
        params = {column: getattr(request, column) for column in _ARRAYS}
        rows = run.rows("enqueue.request_rerun", **params)
        answers.append(_deduped(*rows[0]) if rows else None)
    return answers


def _holders(
    run: Statements, name: str, requests: list[EnqueueRequest]
) -> list[EnqueueAnswer | None]:
    rows = run.rows(
        name,
        name=[request.name for request in requests],
        tenant=[request.tenant for request in requests],
        key=[request.key for request in requests],
        payload=[request.payload for request in requests],
    )
    holders = {
        position: _deduped(id_, run_id, state, same_input)
        for id_, run_id, state, position, same_input in rows
    }
    return [holders.get(index + 1) for index in range(len(requests))]


def _deduped(id_: object, run_id: object, state: str, same_input: bool) -> EnqueueAnswer:
    return EnqueueAnswer(
        id=id_,  # type: ignore[arg-type]
        run_id=run_id,  # type: ignore[arg-type]
        deduped=True,
        state=JobState(state),
        same_input=same_input,
    )
