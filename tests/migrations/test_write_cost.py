"""How many index entries each transition writes, counted in the server's own log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.migrations.database import ScratchDatabase
from ultimate_jobs.ids import new_id
from ultimate_jobs.sql import statement

COUNT = 40
KEY = "x_jobs_name_tenant_idempotency_live_idx"
EVENT = {"x_job_events_pkey": 1, "x_job_events_job_idx": 1}

# The table of docs/explanation/write-cost.md. One more entry here is a third more work somewhere.
COSTS = {
    "enqueue": {"x_jobs_pkey": 1, KEY: 1, "x_jobs_ready_idx": 1},
    "enqueue_later": {"x_jobs_pkey": 1, KEY: 1, "x_jobs_waiting_idx": 1},
    "claim": {"x_jobs_pkey": 1, KEY: 1, "x_jobs_running_idx": 1},
    "heartbeat": {},
    "complete": {"x_jobs_pkey": 1},
    "shed": {"x_jobs_pkey": 1, KEY: 1, "x_jobs_ready_idx": 1},
    "fail": {"x_jobs_pkey": 1, KEY: 1, "x_jobs_ready_idx": 1, **EVENT},
    "park": {"x_jobs_pkey": 1, KEY: 1, "x_jobs_waiting_idx": 1, **EVENT},
    "die": {"x_jobs_pkey": 1, "x_jobs_dead_idx": 1, **EVENT},
    "rescue": {"x_jobs_pkey": 1, KEY: 1, "x_jobs_ready_idx": 1, **EVENT},
    "cancel": {"x_jobs_pkey": 1, **EVENT},
}

# A split writes the entry that caused it; upper levels are not entries of rows.
ENTRIES = """
select c.relname, count(*)
from pg_get_wal_records_info(%s, %s) w
join pg_class c on c.relkind = 'i' and c.relname like 'x\\_job%%'
    and strpos(w.block_ref, '/' || c.relfilenode || ' ') > 0
    and strpos(w.block_ref, '/' || (
        select oid from pg_database where datname = current_database()) || '/') > 0
where w.resource_manager = 'Btree'
    and w.record_type in ('INSERT_LEAF', 'INSERT_POST', 'SPLIT_L', 'SPLIT_R')
group by 1
"""


class Meter:
    """Runs one transition for ``COUNT`` jobs and counts what the server logged for it."""

    def __init__(self, database: ScratchDatabase) -> None:
        self._database = database
        self.worker = uuid4()
        self.jobs: list[UUID] = []
        # Log positions are read up to what is flushed.
        database.sql("set synchronous_commit = on")

    def measure(self, call: Callable[[], None]) -> dict[str, float]:
        begin = self._database.value("select pg_current_wal_insert_lsn()::text")
        call()
        end = self._database.value("select pg_current_wal_flush_lsn()::text")
        found = self._database.sql(ENTRIES, [begin, end])
        return {index: entries / COUNT for index, entries in found}

    def register(self) -> None:
        self._run("leases.register_worker", worker=self.worker, ttl_ms=60_000, info="{}")

    def enqueue(self, delay_ms: int = 0) -> None:
        self.jobs = [new_id() for _ in range(COUNT)]
        same = {
            "name": "send",
            "queue": "q",
            "tenant": "acme",
            "payload": "{}",
            "priority": 0,
            "max_attempts": 5,
            "run_after": None,
            "delay_ms": delay_ms,
            "traceparent": None,
            "enqueued_by": "web",
        }
        columns = {name: [value] * COUNT for name, value in same.items()}
        keys = [f"invoice:{number}" for number in range(COUNT)]
        self._run(
            "jobs.enqueue_many",
            id=self.jobs,
            run_id=self.jobs,
            key=keys,
            any_isolation=False,
            **columns,
        )

    def claim(self) -> None:
        self._run("jobs.claim", queues=["q"], wanted=[COUNT], names=["send"], worker=self.worker)

    def heartbeat(self) -> None:
        for _ in range(COUNT):
            self._run("leases.renew", worker=self.worker, ttl_ms=60_000)

    def complete(self) -> None:
        self._run("jobs.ack", **self._held(), results=[None] * COUNT)

    def nack(self, *, counts: bool = False, park: bool = False, dead: bool = False) -> None:
        error = "ValueError" if counts else None
        columns = {"counts": counts, "parks": park, "dead": dead, "delays_ms": 0, "errors": error}
        arrays = {name: [value] * COUNT for name, value in columns.items()}
        self._run("jobs.nack", **self._held(), **arrays, details=["{}"] * COUNT)

    def rescue(self) -> None:
        self._run("leases.rescue", ids=self.jobs, max_lost_leases=10)

    def cancel(self) -> None:
        self._run("jobs.cancel", ids=self.jobs, any_tenant=True, tenant=None, by="operator")

    def expire(self) -> None:
        self._database.sql("update x_job_leases set expires_at = now() - interval '1 min'")

    def states(self) -> set[str]:
        return {state for (state,) in self._database.sql("select distinct state from x_jobs")}

    def _held(self) -> dict[str, Any]:
        rows = self._database.sql("select id, token from x_jobs where worker = %s", [self.worker])
        return {
            "ids": [id_ for id_, _ in rows],
            "tokens": [token for _, token in rows],
            "worker": self.worker,
        }

    def _run(self, name: str, /, **parameters: Any) -> None:
        self._database.sql(statement(name), parameters)


@pytest.fixture
def meter(settled: ScratchDatabase) -> Meter:
    """A meter with a registered worker; skips where the server cannot show its log."""
    try:
        settled.sql("create extension if not exists pg_walinspect")
    except psycopg.errors.Error as error:
        pytest.skip(f"the server does not show its log: {error}")
    made = Meter(settled)
    made.register()
    return made


Before = Callable[[Meter], None]


def nothing(meter: Meter) -> None:
    """The transition is the first."""


def enqueued(meter: Meter) -> None:
    meter.enqueue()


def claimed(meter: Meter) -> None:
    meter.enqueue()
    meter.claim()


def abandoned(meter: Meter) -> None:
    claimed(meter)
    meter.expire()


@pytest.mark.parametrize(
    ("name", "before", "transition", "after"),
    [
        ("enqueue", nothing, Meter.enqueue, "ready"),
        ("enqueue_later", nothing, lambda meter: meter.enqueue(60_000), "delayed"),
        ("claim", enqueued, Meter.claim, "running"),
        ("heartbeat", claimed, Meter.heartbeat, "running"),
        ("complete", claimed, Meter.complete, "completed"),
        ("shed", claimed, Meter.nack, "ready"),
        ("fail", claimed, lambda meter: meter.nack(counts=True), "ready"),
        ("park", claimed, lambda meter: meter.nack(park=True), "suspended"),
        ("die", claimed, lambda meter: meter.nack(counts=True, dead=True), "dead"),
        ("rescue", abandoned, Meter.rescue, "ready"),
        ("cancel", enqueued, Meter.cancel, "cancelled"),
    ],
)
def test_transition_writes_the_index_entries_that_the_docs_say(
    meter: Meter, name: str, before: Before, transition: Callable[[Meter], None], after: str
) -> None:
    """No transition writes an entry more than its line in the table."""
    before(meter)

    entries = meter.measure(lambda: transition(meter))

    assert meter.states() == {after}
    assert entries == COSTS[name]


def test_run_without_a_failure_writes_seven_index_entries() -> None:
    """Enqueue, claim and complete together; the sum is what a busy site pays."""
    assert sum(sum(COSTS[name].values()) for name in ("enqueue", "claim", "complete")) == 7
