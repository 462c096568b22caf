"""Writes the ends of claims in batches, and does not rest until each is written or lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from uuid import UUID

from django.db.utils import DataError, Error, IntegrityError

from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.processes.loops import (
    Loop,
    is_connection_error,
    spread_wait,
    tell_database_error,
)
from ultimate_jobs.processes.outcomes import Outcome, Tally, tell_lost, tell_written
from ultimate_jobs.processes.slots import SlotKeeper
from ultimate_jobs.services import attempts
from ultimate_jobs.states import JobState
from ultimate_jobs.types import ANY_TENANT, Claim, Completion, Nack, WriteAnswer, Written

# What the database, or psycopg before it, refuses for its content.
POISON = (DataError, IntegrityError, UnicodeEncodeError)

MAX_BATCH = 500
MAX_BATCH_SIZE = 8 * 1024 * 1024
LONG = 60.0

Key = tuple[UUID, int]
Send = Callable[[UUID, Sequence[Outcome]], list[WriteAnswer]]


class Acknowledger:
    """Collects outcomes from the threads and writes them: one ack and one nack per flush.

    Args:
        interval: seconds that the first outcome of a batch waits for others.
        batch: this many are written at once.
        slots: knows which claims hold slots, and gives them back once their end is written.
        on_written: called after each flush.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        interval: float,
        batch: int,
        slots: SlotKeeper | None = None,
        on_written: Callable[[], None],
        on_bug: Callable[[], None],
    ) -> None:
        self.tally = Tally()
        self.loop = Loop("acknowledger", self.step, alias=driver.alias, on_bug=on_bug)
        self._driver = driver
        self._interval = interval
        self._batch = batch
        self._slots = SlotKeeper(driver) if slots is None else slots
        # Asked once, and not for each of twenty thousand ends a second.
        self._has_limits = bool(self._slots.limits)
        self._on_written = on_written
        self._lock = Lock()
        self._pending: dict[Outcome, None] = {}
        self._pending_size = 0
        # How many of them no step has seen yet, since when, and whether they may wait for others.
        self._new = 0
        self._new_since = 0.0
        self._urgent = False

    @property
    def pending(self) -> int:
        """How many outcomes are not yet written, and slots of written ones not yet given back."""
        return len(self._pending) + self._slots.ending

    @property
    def pending_size(self) -> int:
        """How many characters they hold."""
        return self._pending_size

    def holds(self) -> set[Key]:
        """Return the claims whose outcomes are not yet written."""
        with self._lock:
            return {outcome.key for outcome in self._pending}

    def add(self, outcome: Outcome) -> None:
        """Take one outcome; called by any thread."""
        with self._lock:
            self._pending[outcome] = None
            self._pending_size += outcome.size
            self._new += 1
            count = self._new
            if count == 1:
                self._new_since = time.monotonic()
            # Another job may wait for its slot.
            is_urgent = self._has_limits and self._slots.holds(outcome.key)
            self._urgent = self._urgent or is_urgent
        if is_urgent or count in (1, self._batch):
            self.loop.wake.call()

    def release(self, claim: Claim) -> None:
        """Give back the slots of a claim with nothing left to write here; called by any thread."""
        key = (claim.id, claim.token)
        if self._slots.holds(key):
            self._slots.ended(key)
            self.loop.wake.call()

    def hurry(self) -> None:
        """Write what there is now: nothing more is coming soon."""
        if self._pending:
            self._urgent = True
            self.loop.wake.call()

    def step(self) -> float:
        """Write what is due, and return the pause until more is."""
        lingers = self._lingers()
        if lingers > 0:
            return lingers
        due = self._collect()
        try:
            self._write_all(due)
            self._slots.give_back()
        finally:
            if due:
                self._on_written()
        return self._next_pause()

    def _lingers(self) -> float:
        """Return how long the arrived outcomes may still wait for company."""
        with self._lock:
            if self._urgent or not self._new or self._new >= self._batch:
                return 0.0
            return self._new_since + self._interval - time.monotonic()

    def _collect(self) -> list[Outcome]:
        now = time.monotonic()
        with self._lock:
            self._new = 0
            self._urgent = False
            return [one for one in self._pending if one.not_before <= now]

    def _next_pause(self) -> float:
        """What is new wakes this loop; what was put off must be waited for."""
        now = time.monotonic()
        with self._lock:
            later = [one.not_before - now for one in self._pending if one.tries]
            new_since = self._new_since + self._interval - now if self._new else LONG
        return min([*later, new_since])

    def _write_all(self, due: list[Outcome]) -> None:
        """Acks first: one that is refused becomes a nack, and is written with the others."""
        for worker in dict.fromkeys(one.claim.worker for one in due):
            mine = [one for one in due if one.claim.worker == worker]
            for batch in _batches([one for one in mine if isinstance(one.write, Completion)]):
                self._write(worker, batch, self._ack)
            for batch in _batches([one for one in mine if isinstance(one.write, Nack)]):
                self._write(worker, batch, self._nack)

    def _ack(self, worker: UUID, batch: Sequence[Outcome]) -> list[WriteAnswer]:
        writes = [one.write for one in batch if isinstance(one.write, Completion)]
        return self._driver.ack(worker, writes)

    def _nack(self, worker: UUID, batch: Sequence[Outcome]) -> list[WriteAnswer]:
        return self._driver.nack(
            worker, [one.write for one in batch if isinstance(one.write, Nack)]
        )

    def _write(self, worker: UUID, batch: Sequence[Outcome], send: Send) -> None:
        try:
            answers = send(worker, batch)
        except (Error, UnicodeEncodeError) as error:
            if is_connection_error(error):
                # The server may have committed it before the connection broke.
                for outcome in batch:
                    outcome.in_doubt = True
                raise
            self._refused(worker, batch, send, error)
            return
        plain: list[Outcome] = []
        for outcome, answer in zip(batch, answers, strict=True):
            if answer.state is JobState.COMPLETED:
                plain.append(outcome)
            else:
                self._settle(outcome, answer)
        self.tally.add("completed", len(plain))
        self._forget(plain)

    def _refused(
        self, worker: UUID, batch: Sequence[Outcome], send: Send, error: Exception
    ) -> None:
        """One item that the database refuses must not hold up the others."""
        if len(batch) > 1:
            for outcome in batch:
                self._write(worker, [outcome], send)
            return
        [outcome] = batch
        if isinstance(error, POISON) and not outcome.replaced:
            outcome.write = attempts.bury(outcome.claim, attempts.unstorable(outcome.claim, error))
            outcome.replaced = True
        else:
            self._defer(outcome)
            tell_database_error("acknowledger", error, outcome.not_before - time.monotonic())

    def _settle(self, outcome: Outcome, answer: WriteAnswer) -> None:
        if answer.outcome is Written.BUSY:
            self._defer(outcome)
            return
        if answer.outcome is Written.DONE:
            tell_written(outcome, answer.state, self.tally)
        elif outcome.in_doubt and (state := self._state_we_wrote(outcome)) is not None:
            tell_written(outcome, state, self.tally)
        else:
            tell_lost(outcome, self.tally)
        self._forget([outcome])

    def _forget(self, outcomes: Sequence[Outcome]) -> None:
        # Before they are gone from here: at no moment is a slot that is still taken nobody's.
        if self._has_limits:
            for outcome in outcomes:
                self._slots.ended(outcome.key)
        with self._lock:
            for outcome in outcomes:
                del self._pending[outcome]
                self._pending_size -= outcome.size

    def _defer(self, outcome: Outcome) -> None:
        outcome.tries += 1
        wait = spread_wait(outcome.tries, first=0.02, longest=1.0)
        outcome.not_before = time.monotonic() + wait

    def _state_we_wrote(self, outcome: Outcome) -> JobState | None:
        """Tell our own unseen commit from a claim that another took.

        A claim leaves a worker by the worker's own write, or by a rescue, which counts a lost
        lease. So where none was counted, it was ours, and the job may have gone on since.
        """
        claim = outcome.claim
        record = self._driver.introspection.get(claim.id, tenant=ANY_TENANT)
        if record is None:
            return None
        if (record.lost_leases, record.retry_count) != (claim.lost_leases, claim.retry_count):
            return None
        return record.state if record.token == claim.token else JobState.READY


def _batches(outcomes: Sequence[Outcome]) -> Iterator[list[Outcome]]:
    batch: list[Outcome] = []
    size = 0
    for outcome in outcomes:
        if batch and (len(batch) >= MAX_BATCH or size + outcome.size > MAX_BATCH_SIZE):
            yield batch
            batch, size = [], 0
        batch.append(outcome)
        size += outcome.size
    if batch:
        yield batch
