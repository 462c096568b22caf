"""What stands in for a driver and its rows where a test drives one part of a worker alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

from ultimate_jobs import events
from ultimate_jobs.processes.outcomes import Outcome
from ultimate_jobs.states import JobState
from ultimate_jobs.types import Claim, Completion, Nack, WriteAnswer, Written

Write = Completion | Nack
Answer = Written | BaseException


def a_claim(**fields: Any) -> Claim:
    """Return a claim of a job that nothing stores."""
    values: dict[str, Any] = {
        "id": uuid4(),
        "run_id": uuid4(),
        "name": "tests.any",
        "queue": "default",
        "tenant": None,
        "key": "any",
        "payload": "{}",
        "worker": uuid4(),
        "token": 1,
        "attempt": 1,
        "max_attempts": 3,
        "lost_leases": 0,
        "retry_count": 0,
        "priority": 0,
        "due_at": datetime(2026, 1, 1, tzinfo=UTC),
        "traceparent": None,
    }
    return Claim(**{**values, **fields})


def a_completion(**fields: Any) -> Outcome:
    """Return a claim that ended well and is not yet written."""
    claim = a_claim(**fields)
    return Outcome(claim, Completion(claim.id, claim.token))


class ScriptedDriver:
    """Answers every write by a script, and remembers what it was sent.

    Attributes:
        script: answers the write of one claim; an exception is raised for its whole batch.
        sent: the batches, as (verb, worker, writes).
    """

    alias = None

    def __init__(self, script: Callable[[Write], Answer] = lambda _: Written.DONE) -> None:
        self.script = script
        self.sent: list[tuple[str, UUID, list[Write]]] = []
        self.stored: dict[UUID, Any] = {}
        self.introspection = SimpleNamespace(get=lambda id_, tenant: self.stored.get(id_))

    def ack(self, worker: UUID, writes: Sequence[Completion]) -> list[WriteAnswer]:
        return self._answer("ack", worker, writes, JobState.COMPLETED)

    def nack(self, worker: UUID, writes: Sequence[Nack]) -> list[WriteAnswer]:
        return self._answer("nack", worker, writes, None)

    @property
    def verbs(self) -> list[str]:
        return [f"{verb} {len(writes)}" for verb, _, writes in self.sent]

    def _answer(
        self, verb: str, worker: UUID, writes: Sequence[Any], state: JobState | None
    ) -> list[WriteAnswer]:
        self.sent.append((verb, worker, list(writes)))
        answers = []
        for write in writes:
            answer = self.script(write)
            if isinstance(answer, BaseException):
                raise answer
            written = (state or _state(write)) if answer is Written.DONE else None
            answers.append(WriteAnswer(write.id, write.token, answer, written))
        return answers


def _state(write: Nack) -> JobState:
    return JobState.DEAD if write.dead_letter else JobState.READY


@contextmanager
def recorded_events() -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Collect what is emitted meanwhile."""
    heard: list[tuple[str, dict[str, Any]]] = []

    def hear(name: str, facts: dict[str, Any]) -> None:
        heard.append((name, facts))

    events.subscribe(hear)
    try:
        yield heard
    finally:
        events.unsubscribe(hear)
