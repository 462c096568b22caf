"""Plans: what workers and monitors ask every few moments costs by what is due, never by history."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction

from ultimate_jobs.drivers.postgres import PostgresDriver, introspection
from ultimate_jobs.ids import new_id
from ultimate_jobs.models.job import LIVE_KEY_INDEX
from ultimate_jobs.types import (
    ANY_TENANT,
    CancelOutcome,
    ClaimRequest,
    Completion,
    EnqueueRequest,
    Nack,
    OnConflict,
    Written,
)

FINISHED = 50_000
FUTURE = 5_000
READY = 20_000
WOKEN = 50
# The first has lost its lease, with all that it ran.
WORKER = UUID("00000000-0000-7000-8000-000000000001")
LIVE_WORKER = UUID("00000000-0000-7000-8000-000000000002")
COUNTS = {
    "worker": WORKER,
    "finished": FINISHED,
    "future": FUTURE,
    "ready": READY,
    "woken": WOKEN,
}

# Finished rows of every kind; a backlog in three queues and priorities; what is scheduled for
# later, in both the states that wait and in backoff; what runs, under a live and a dead worker.
FILL = """
insert into x_jobs (id, run_id, name, queue, tenant_id, idempotency_key, payload, state, priority,
    max_attempts, worker, claimed_at, run_at, due_at, finished_at)
select gen_random_uuid(), gen_random_uuid(), 'plan.' || n %% 20, 'q' || n %% 3,
    case when n %% 2 = 0 then 't' || n %% 50 end, kind || n, '{}', state, n %% 3, 8,
    case when state = 'running' then %(worker)s::uuid end,
    case when state = 'running' then x_now() end,
    x_now() + shift, x_now() + shift,
    case when state in ('completed', 'cancelled', 'dead') then x_now() end
from (values
    ('done', 'completed', interval '-1 day', %(finished)s::integer),
    ('cancelled', 'cancelled', interval '-1 day', 2000),
    ('dead', 'dead', interval '-1 day', 500),
    ('ready', 'ready', interval '-1 hour', %(ready)s),
    ('backoff', 'ready', interval '1 hour', %(future)s),
    ('delayed', 'delayed', interval '1 day', %(future)s),
    ('parked', 'suspended', interval '1 day', %(future)s),
    ('woken', 'suspended', interval '-1 minute', %(woken)s),
    ('running', 'running', interval '-1 minute', 200)
) as part(kind, state, shift, count)
cross join lateral generate_series(1, part.count) as n
where (state = any(array['completed', 'cancelled', 'dead'])) = %(history)s
"""
LEASES = """
insert into x_job_leases (kind, name, holder, expires_at, info)
select 'worker', n::text, case when n = 1 then %s::uuid else gen_random_uuid() end,
    x_now() + interval '1 hour', '{"names": ["plan.1"]}'
from generate_series(1, 20) n
"""


@pytest.fixture(
    scope="module", params=["analyzed", "never analyzed", "analyzed before the backlog"]
)
def busy(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any
) -> Iterator[None]:
    """A table with a history; it is filled once, and rolled back at the end.

    A new installation has no statistics, and after a burst they are of another table.
    """
    with django_db_blocker.unblock(), transaction.atomic():
        with connection.cursor() as cursor:
            # Without what earlier tests rolled back, which vacuum has yet to remove.
            cursor.execute("truncate x_jobs, x_job_leases")
            cursor.execute(FILL, {**COUNTS, "history": True})
            if request.param == "analyzed before the backlog":
                cursor.execute("analyze x_jobs, x_job_leases")
            cursor.execute(FILL, {**COUNTS, "history": False})
            cursor.execute(LEASES, [LIVE_WORKER])
            if request.param == "analyzed":
                cursor.execute("analyze x_jobs, x_job_leases")
        yield
        transaction.set_rollback(True)


pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("busy")]


class Plans:
    """What PostgreSQL did for the statements that the driver itself sent."""

    def __init__(self, act: Callable[[PostgresDriver], Any]) -> None:
        self.roots: list[dict[str, Any]] = []
        self._explaining = False
        with transaction.atomic():
            with connection.execute_wrapper(self._explain):
                self.answer = act(PostgresDriver("default"))
            transaction.set_rollback(True)
        self.nodes = [node for root in self.roots for node in self._below(root)]

    def _explain(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        verb = sql.lstrip().split(None, 1)[0].lower()
        if not self._explaining and verb in ("select", "with", "insert", "update", "delete"):
            self._explaining = True
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(f"explain (analyze, buffers, format json) {sql}", params)
                found = cursor.fetchone()[0]
                transaction.set_rollback(True)
            self._explaining = False
            plans = found if isinstance(found, list) else json.loads(found)
            self.roots.append(plans[0]["Plan"])
        return execute(sql, params, many, context)

    def _below(self, node: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield node
        for inner in node.get("Plans", []):
            yield from self._below(inner)

    @property
    def indexes(self) -> set[str]:
        return {node["Index Name"] for node in self.nodes if "Index Name" in node}

    @property
    def scanned_whole(self) -> set[str]:
        return {node["Relation Name"] for node in self.nodes if node["Node Type"] == "Seq Scan"}

    @property
    def pages(self) -> int:
        return sum(root["Shared Hit Blocks"] + root["Shared Read Blocks"] for root in self.roots)

    @property
    def discarded(self) -> float:
        """Rows that were read and thrown away."""
        return sum(
            node.get(removed, 0) * node["Actual Loops"]
            for node in self.nodes
            for removed in ("Rows Removed by Filter", "Rows Removed by Index Recheck")
        )


NAMES = tuple(f"plan.{n}" for n in range(20))


def requests(kind: str, count: int) -> list[EnqueueRequest]:
    """Ask for keys that rows of this kind hold, by the way in which they were filled."""
    return [
        EnqueueRequest(
            id=new_id(),
            run_id=new_id(),
            name=f"plan.{n % 20}",
            queue="q0",
            tenant=f"t{n % 50}" if n % 2 == 0 else None,
            key=f"{kind}{n}",
            payload="{}",
        )
        for n in range(1, count + 1)
    ]


@pytest.mark.parametrize("names", [NAMES, NAMES[1:2]], ids=["many names", "one name"])
@pytest.mark.parametrize("limit", [1, 10])
@pytest.mark.parametrize("queues", [("q0",), ("q0", "q1", "q2"), ("idle",), None], ids=str)
def test_claim_reads_the_partial_indexes_and_no_history(
    queues: tuple[str, ...] | None, limit: int, names: tuple[str, ...]
) -> None:
    """A claim costs a few pages a job, whatever has finished and whatever is due later."""
    plans = Plans(lambda driver: driver.claim(ClaimRequest(WORKER, names, limit, queues=queues)))

    assert len(plans.answer) == (0 if queues == ("idle",) else limit)
    assert "x_jobs" not in plans.scanned_whole
    assert {"x_jobs_ready_idx", "x_jobs_waiting_idx"} <= plans.indexes
    # The index knows no names, so those of others are passed over, twenty for each of one's own: by
    # the survey once per tenant, priority and queue, and again by the claim.
    heads = 26 * 3 * (1 if queues is not None and len(queues) == 1 else 3)
    assert plans.discarded < 60 * heads
    assert plans.pages < 60 * heads


def test_claim_of_names_that_nothing_has_finds_nothing() -> None:
    """A worker that knows none of the names is told so, without a look at what has finished."""
    plans = Plans(lambda driver: driver.claim(ClaimRequest(WORKER, ("none",), 10, queues=("q0",))))

    assert plans.answer == []
    assert "x_jobs" not in plans.scanned_whole


@pytest.mark.parametrize("count", [1, 1000])
@pytest.mark.parametrize(("kind", "held"), [("ready", READY), ("running", 200), ("done", 0)])
def test_enqueue_finds_the_holders_of_its_keys_by_the_unique_index(
    kind: str, held: int, count: int
) -> None:
    """A dedupe costs by the keys that are asked for; ended jobs of the same keys cost nothing."""
    plans = Plans(
        lambda driver: driver.enqueue(requests(kind, count), on_conflict=OnConflict.EXISTING)
    )

    assert sum(answer.deduped for answer in plans.answer) == min(count, held)
    # For a thousand keys of a small table, reading it whole may be the cheaper plan.
    assert plans.pages < 50 + 20 * count
    if count == 1:
        assert "x_jobs" not in plans.scanned_whole
        assert (LIVE_KEY_INDEX in plans.indexes) is (held > 0)


def test_rerun_finds_its_running_job_by_the_unique_index() -> None:
    """One row is changed, and no other running row is looked at."""
    plans = Plans(
        lambda driver: driver.enqueue(requests("running", 1), on_conflict=OnConflict.RERUN)
    )

    assert [answer.deduped for answer in plans.answer] == [True]
    assert "x_jobs_running_idx" not in plans.indexes
    assert plans.pages < 70


def test_retry_asks_for_the_holder_by_the_unique_index() -> None:
    """A dead job's key may be held, and the question is one descent."""
    with connection.cursor() as cursor:
        cursor.execute("select id from x_jobs where state = 'dead' limit 1")
        [job_id] = cursor.fetchone()

    plans = Plans(
        lambda driver: driver.introspection.retry(
            job_id, tenant=ANY_TENANT, by="tests", fresh_run_id=None
        )
    )

    assert "x_jobs" not in plans.scanned_whole
    assert LIVE_KEY_INDEX in plans.indexes


def test_rescue_reads_running_rows_only() -> None:
    """The sweep runs every few seconds, and costs by what runs."""
    plans = Plans(lambda driver: driver.leases.rescue(limit=100))

    assert len(plans.answer) == 100
    assert "x_jobs" not in plans.scanned_whole
    assert "x_jobs_running_idx" in plans.indexes


def test_heartbeat_reads_the_workers_own_rows_only() -> None:
    """Every worker asks every few seconds whether one of its jobs was cancelled."""
    plans = Plans(lambda driver: driver.heartbeat(LIVE_WORKER))

    assert plans.answer.alive
    assert "x_jobs" not in plans.scanned_whole
    assert "x_jobs_running_idx" in plans.indexes
    assert plans.pages < 50


def test_workers_are_listed_without_history() -> None:
    """What each worker runs is counted by the index of running rows."""
    plans = Plans(lambda driver: driver.leases.workers())

    assert len(plans.answer) == 20
    assert "x_jobs" not in plans.scanned_whole
    assert "x_jobs_running_idx" in plans.indexes


def test_stats_read_the_partial_indexes_and_no_history() -> None:
    """The depth of all queues is counted by index only, every few seconds."""
    plans = Plans(lambda driver: driver.introspection.stats())

    assert {"q0", "q1", "q2"} == {counted.queue for counted in plans.answer}
    assert sum(counted.depth for counted in plans.answer) == READY + WOKEN
    assert "x_jobs" not in plans.scanned_whole
    assert {
        "x_jobs_ready_idx",
        "x_jobs_waiting_idx",
        "x_jobs_running_idx",
        "x_jobs_dead_idx",
    } <= plans.indexes


def test_stats_stop_at_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backlog of millions is not counted to its end, and the answer says so."""
    whole = Plans(lambda driver: driver.introspection.stats())
    monkeypatch.setattr(introspection, "COUNT_CAP", 10)
    capped = Plans(lambda driver: driver.introspection.stats())

    assert all(counted.estimated for counted in capped.answer)
    assert capped.pages < whole.pages / 3


def running(count: int) -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute("select id from x_jobs where state = 'running' limit %s", [count])
        return [row[0] for row in cursor.fetchall()]


def test_ack_finds_its_rows_by_their_ids() -> None:
    """A batch of completions is a batch of primary key look-ups, also of those that were lost."""
    ids = running(100)
    completions = [Completion(id_, token) for token, id_ in enumerate(ids)]

    plans = Plans(lambda driver: driver.ack(WORKER, completions))

    assert {answer.outcome for answer in plans.answer} == {Written.DONE, Written.LOST}
    assert "x_jobs" not in plans.scanned_whole


def test_nack_finds_its_rows_by_their_ids() -> None:
    """A batch that is handed back is the same."""
    nacks = [Nack(id_, 0, counts_as_attempt=False) for id_ in running(100)]

    plans = Plans(lambda driver: driver.nack(WORKER, nacks))

    assert {answer.outcome for answer in plans.answer} == {Written.DONE}
    assert "x_jobs" not in plans.scanned_whole


def test_cancel_finds_its_rows_by_their_ids() -> None:
    """A bulk action on a page of jobs reads that page."""
    ids = running(100)

    plans = Plans(lambda driver: driver.cancel(ids, tenant=ANY_TENANT, by="tests"))

    assert {answer.outcome for answer in plans.answer} == {CancelOutcome.REQUESTED}
    assert "x_jobs" not in plans.scanned_whole
