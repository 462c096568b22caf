"""A long history is pruned while a worker claims beside it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection, connections

from tests.concurrency.conftest import register_worker
from tests.concurrency.sessions import Session, fetch
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.services.retention import prune
from ultimate_jobs.types import ClaimRequest, Completion

# Ids as new_id makes them of the time of the enqueue, but for one row in fifty of the release that
# made random ones and left finished_at empty. Half of the rows are too young to go.
FILL = """
insert into x_jobs (id, run_id, name, queue, idempotency_key, payload, state, max_attempts,
    created_at, updated_at, finished_at)
select
    case when n %% 50 = 0 then gen_random_uuid()
        else (lpad(to_hex((extract(epoch from moment) * 1000)::bigint), 12, '0')
            || substr(md5(n::text), 1, 20))::uuid end,
    gen_random_uuid(), 'race', 'q' || n %% 3, 'old' || n, '{}', state, 1,
    moment, moment, case when n %% 50 <> 0 then moment end
from (
    select n, case when n %% 2 = 0 then 'old' else 'young' end as age,
        (array['completed', 'completed', 'cancelled', 'dead'])[1 + (n / 2) %% 4] as state,
        x_now() - case when n %% 2 = 0 then interval '100 days' else interval '2 days' end
            - n * interval '1 second' as moment
    from generate_series(1, %s) n
) rows
"""
EVENTS = """
insert into x_job_events (job_id, run_id, type, attempt, at)
select id, run_id, 'dead', 1, updated_at from x_jobs where state = 'dead'
"""
READY = """
insert into x_jobs (id, run_id, name, queue, idempotency_key, payload, state, max_attempts)
select gen_random_uuid(), gen_random_uuid(), 'race', 'q0', 'ready' || n, '{}', 'ready', 1
from generate_series(1, %s) n
"""


@pytest.mark.parametrize(
    ("history", "ready"), [(20_000, 500), pytest.param(200_000, 5000, marks=pytest.mark.stress)]
)
def test_prune_of_a_long_history_holds_up_no_claim(
    driver: PostgresDriver, history: int, ready: int
) -> None:
    """Everything old goes and nothing young; every job that waits is claimed meanwhile."""
    with connection.cursor() as cursor:
        cursor.execute(FILL, [history])
        cursor.execute(EVENTS)
        cursor.execute(READY, [ready])
        cursor.execute("analyze x_jobs, x_job_events")
    young = dict(_counts("updated_at > x_now() - interval '14 days' and state <> 'ready'"))
    claimed: list[Any] = []
    claimer = Session()
    claimer.sql("set lock_timeout = '1s'")
    enough = threading.Event()
    working = claimer.start(lambda: _work(driver, claimed, enough, ready))

    removed = prune(driver, dry_run=False, sleep=lambda _: None)
    enough.set()
    working.result(timeout=60)
    claimer.close()

    assert removed.completed + removed.cancelled + removed.dead == history // 2
    assert removed.events == removed.dead
    assert len(claimed) == len(set(claimed)) == ready
    left = dict(_counts("state <> 'ready'"))
    assert left["dead"] == young["dead"]
    assert left["cancelled"] == young["cancelled"]
    assert left["completed"] == young["completed"] + ready
    assert fetch("select count(*) from x_job_events") == [(young["dead"],)]


def _counts(where: str) -> list[tuple[Any, ...]]:
    return fetch(f"select state, count(*) from x_jobs where {where} group by state")


def _work(driver: PostgresDriver, claimed: list[Any], enough: threading.Event, ready: int) -> None:
    """Claim and complete until the prune has ended and nothing is left to claim."""
    worker = register_worker(driver)
    try:
        while not enough.is_set() or len(claimed) < ready:
            claims = driver.claim(ClaimRequest(worker, ("race",), 10, ("q0",)))
            driver.ack(worker, [Completion(one.id, one.token) for one in claims])
            claimed.extend(one.id for one in claims)
            driver.heartbeat(worker)
            if not claims:
                enough.wait(0.01)
    finally:
        connections.close_all()
