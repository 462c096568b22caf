"""A driver under test with its movable clock, and the short words the tests are written in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.db import connection

from ultimate_jobs import conf
from ultimate_jobs.clock import MovableClock
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.records import EventRecord, JobFilter, JobRecord, QueueStats
from ultimate_jobs.states import JobState
from ultimate_jobs.types import (
    ANY_TENANT,
    CancelAnswer,
    Claim,
    ClaimRequest,
    Completion,
    EnqueueAnswer,
    EnqueueRequest,
    Failure,
    Nack,
    OnConflict,
    Rescue,
    TenantScope,
    WorkerCard,
    WriteAnswer,
)

from .factories import EnqueueRequestFactory

MINUTE_MS = 60_000
BOOM = Failure(error_class="ValueError", message="boom", traceback="Traceback: boom")


@dataclass(slots=True)
class Span:
    """The driver's time before and after an act, in epoch milliseconds."""

    start: float
    end: float = field(default=0.0)

    def covers(self, moment: datetime | None, *, plus_ms: float = 0) -> bool:
        """Say whether an instant is that of the act, moved by so much; exact to a millisecond."""
        if moment is None:
            return False
        epoch_ms = moment.timestamp() * 1000
        return self.start + plus_ms - 1 <= epoch_ms <= self.end + plus_ms + 1


class Harness(ABC):
    """One driver, one queue and one job name that no other test uses."""

    driver: Driver
    queue: str
    name: str

    def __init__(self) -> None:
        self.renew()

    @abstractmethod
    def advance(self, milliseconds: int) -> None:
        """Move the driver's clock."""

    @abstractmethod
    def now_ms(self) -> float:
        """Return the driver's now in epoch milliseconds."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind."""

    def renew(self) -> None:
        """Turn to a queue and a job name that nobody used."""
        fresh = uuid4().hex[:12]
        self.queue, self.name = f"queue-{fresh}", f"contract.job_{fresh}"

    @contextmanager
    def timed(self) -> Iterator[Span]:
        """Measure an act by the driver's own clock."""
        span = Span(self.now_ms())
        yield span
        span.end = self.now_ms()

    @property
    def lease_ttl_ms(self) -> int:
        return conf.settings().lease_ttl_ms

    @property
    def max_lost_leases(self) -> int:
        return conf.settings().max_lost_leases

    def request(self, **fields: Any) -> EnqueueRequest:
        request: EnqueueRequest = EnqueueRequestFactory(
            **{"queue": self.queue, "name": self.name, **fields}
        )
        return request

    def ask(
        self, *requests: EnqueueRequest, on_conflict: OnConflict = OnConflict.EXISTING
    ) -> list[EnqueueAnswer]:
        return self.driver.enqueue(requests, on_conflict=on_conflict)

    def enqueue(
        self, *, on_conflict: OnConflict = OnConflict.EXISTING, **fields: Any
    ) -> EnqueueAnswer:
        [answer] = self.ask(self.request(**fields), on_conflict=on_conflict)
        return answer

    def start_worker(self, *names: str) -> UUID:
        """Register a worker that knows these names, or else the harness's own."""
        card = WorkerCard(
            worker=uuid4(),
            names=names or (self.name,),
            queues=(self.queue,),
            hostname="host-1",
            pid=4711,
            threads=4,
            app_version="v1",
        )
        self.driver.leases.register(card)
        return card.worker

    def claim(
        self, worker: UUID | None = None, *, limit: int = 10, names: Sequence[str] = ()
    ) -> list[Claim]:
        return self.driver.claim(
            ClaimRequest(
                worker=worker or self.start_worker(),
                names=tuple(names) or (self.name,),
                limit=limit,
                queues=(self.queue,),
            )
        )

    def claim_one(self, worker: UUID | None = None) -> Claim:
        [claim] = self.claim(worker, limit=1)
        return claim

    def running(self, worker: UUID | None = None, **fields: Any) -> Claim:
        """Enqueue a job and claim it; nothing else may be due in the queue."""
        answer = self.enqueue(**fields)
        claim = self.claim_one(worker)
        assert claim.id == answer.id
        return claim

    def complete(self, claim: Claim, result: str | None = None) -> WriteAnswer:
        [answer] = self.driver.ack(claim.worker, [Completion(claim.id, claim.token, result)])
        return answer

    def nack(self, claim: Claim, **flags: Any) -> WriteAnswer:
        [answer] = self.driver.nack(claim.worker, [Nack(claim.id, claim.token, **flags)])
        return answer

    def fail(self, claim: Claim, *, delay_ms: int = 0) -> WriteAnswer:
        return self.nack(claim, failure=BOOM, delay_ms=delay_ms)

    def bury(self, claim: Claim) -> WriteAnswer:
        return self.nack(claim, dead_letter=True, failure=BOOM)

    def park(self, claim: Claim, *, delay_ms: int = MINUTE_MS) -> WriteAnswer:
        return self.nack(claim, counts_as_attempt=False, park=True, delay_ms=delay_ms)

    def shed(self, claim: Claim, *, delay_ms: int = MINUTE_MS) -> WriteAnswer:
        return self.nack(claim, counts_as_attempt=False, delay_ms=delay_ms)

    def cancel(self, job_id: UUID, *, tenant: TenantScope = ANY_TENANT) -> CancelAnswer:
        [answer] = self.driver.cancel([job_id], tenant=tenant, by="ops")
        return answer

    def retry(
        self, job_id: UUID, *, tenant: TenantScope = ANY_TENANT, fresh_run_id: UUID | None = None
    ) -> JobRecord:
        return self.driver.introspection.retry(
            job_id, tenant=tenant, by="ops", fresh_run_id=fresh_run_id
        )

    def rescue(self, *, limit: int = 1000) -> list[Rescue]:
        return self.driver.leases.rescue(limit=limit)

    def lose(self, claim: Claim) -> Rescue:
        """Let the claim's worker die and its job be rescued."""
        self.driver.leases.release(claim.worker)
        [rescue] = [rescue for rescue in self.rescue() if rescue.id == claim.id]
        return rescue

    def lose_to_the_cap(self, claim: Claim) -> Rescue:
        """Lose the job's worker as often as it takes for the job to be dead."""
        rescue = self.lose(claim)
        while rescue.state is JobState.READY:
            self.advance(MINUTE_MS)
            rescue = self.lose(self.claim_one())
        return rescue

    def job_in(self, state: JobState, **fields: Any) -> UUID:
        """Bring a new job into a state; nothing else may be due in the queue."""
        if state is JobState.READY:
            return self.enqueue(**fields).id
        if state is JobState.DELAYED:
            return self.enqueue(delay_ms=MINUTE_MS, **fields).id
        claim = self.running(**fields)
        if state is JobState.SUSPENDED:
            self.park(claim)
        elif state is JobState.COMPLETED:
            self.complete(claim, result='{"done": true}')
        elif state is JobState.DEAD:
            self.bury(claim)
        elif state is JobState.CANCELLED:
            self.cancel(claim.id)
            self.complete(claim)
        return claim.id

    def get(self, job_id: UUID) -> JobRecord:
        record = self.driver.introspection.get(job_id, tenant=ANY_TENANT)
        assert record is not None
        assert record.id == job_id
        return record

    def find(self, *, limit: int = 1000, **fields: Any) -> list[JobRecord]:
        """Return the jobs of this queue."""
        found = self.driver.introspection.find(
            JobFilter(**{"queue": self.queue, **fields}), limit=limit
        )
        return [record for record in found if isinstance(record, JobRecord)]

    def events(self, job_id: UUID) -> list[EventRecord]:
        return self.driver.introspection.events(job_id)

    def event_types(self, job_id: UUID) -> list[str]:
        return [event.type for event in self.events(job_id)]

    def stats(self) -> QueueStats | None:
        """Return the counts of this queue, or ``None`` where it has none."""
        for record in self.driver.introspection.stats():
            if record.queue == self.queue:
                return record
        return None


class MemoryHarness(Harness):
    """The memory driver; its time stands still between two moves."""

    def __init__(self) -> None:
        super().__init__()
        self._clock = MovableClock()
        self.driver = MemoryDriver(self._clock)

    def advance(self, milliseconds: int) -> None:
        self._clock.advance(milliseconds)

    def now_ms(self) -> float:
        return float(self._clock())

    def close(self) -> None:
        self.driver.close()


class PostgresHarness(Harness):
    """The postgres driver inside the test's transaction; its time flows, and is moved beside."""

    def __init__(self) -> None:
        super().__init__()
        self._offset_ms = 0
        self.driver = PostgresDriver(alias="default")

    def advance(self, milliseconds: int) -> None:
        self._offset_ms += milliseconds
        self._set_offset(f"{self._offset_ms} milliseconds")

    def now_ms(self) -> float:
        with connection.cursor() as cursor:
            cursor.execute("select extract(epoch from x_now())::float8 * 1000")
            return float(cursor.fetchone()[0])

    def close(self) -> None:
        # Inside the test's transaction its rollback takes the offset back, also after an error.
        if not connection.in_atomic_block:
            self._set_offset("")
        self.driver.close()

    def _set_offset(self, offset: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("select set_config('ultimate_jobs.clock_offset', %s, false)", [offset])
