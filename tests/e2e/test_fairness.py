"""A tenant with a mountain of work does not keep another's few jobs waiting."""

from __future__ import annotations

import pytest

from tests.app.jobs import slow
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import Database, eventually

FEW = 10
SECONDS = 0.1
LAST_START = """
select extract(epoch from max(e.started_at) - min(j.created_at))
from testapp_effect e join x_jobs j on j.id = e.job_id where e.label like %s
"""
FILL = """
insert into x_jobs (id, run_id, name, queue, tenant_id, idempotency_key, payload, state)
select gen_random_uuid(), gen_random_uuid(), 'tests.slow', 'default', 'big', 'slow:big' || n,
    jsonb_build_object('label', 'big' || n, 'seconds', %s::float), 'ready'
from generate_series(1, %s::integer) n
"""


@pytest.mark.parametrize("backlog", [2_000, pytest.param(100_000, marks=pytest.mark.stress)])
def test_few_jobs_beside_a_big_backlog_start_within_twice_their_own_time(
    backlog: int, database: Database, start_worker: StartWorker
) -> None:
    """What they need alone, from the first commit to the last end, is doubled at most."""
    worker = start_worker("--threads", "4", settings={"POLL": 0.25})
    worker.wait_until_started()
    alone = _run_few(database, "alone")
    database.rows(FILL, SECONDS, backlog)
    eventually(lambda: database.effects("big%") >= 8, what="the big tenant's jobs run")

    beside = _run_few(database, "beside")

    assert database.count("ready") > backlog / 2
    print(f"alone: started in {alone:.3f} s; beside {backlog}: in {beside:.3f} s")
    # Two seconds for a machine that is busy; in order of age it would be a minute.
    assert beside <= 2 * (alone + SECONDS) + 2


def _run_few(database: Database, prefix: str) -> float:
    slow.using(tenant="small").enqueue_many(
        [{"label": f"{prefix}{number}", "seconds": SECONDS} for number in range(FEW)]
    )
    eventually(lambda: database.effects(f"{prefix}%") == FEW, what=f"all of {prefix}")
    return float(database.value(LAST_START, f"{prefix}%"))
