"""How many index entries each transition writes, counted in the server's own log."""

from __future__ import annotations

import psycopg
import pytest
from django.db import connections

from tests.migrations.database import ALIAS, ScratchDatabase
from tests.migrations.work import Work

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

# A split writes the entry that caused it; entries of upper levels are not entries of rows.
ENTRIES = """
select c.relname, count(*)::float / %s
from pg_get_wal_records_info(%s, %s) w
join pg_class c on c.relkind = 'i' and c.relname like 'x\\_job%%'
    and strpos(w.block_ref, '/' || c.relfilenode || ' ') > 0
    and strpos(w.block_ref, '/' || (
        select oid from pg_database where datname = current_database()) || '/') > 0
where w.resource_manager = 'Btree'
    and w.record_type in ('INSERT_LEAF', 'INSERT_POST', 'SPLIT_L', 'SPLIT_R')
group by 1
"""

EXPIRE = "update x_job_leases set expires_at = now() - interval '1 min'"


@pytest.fixture
def logged(settled: ScratchDatabase) -> ScratchDatabase:
    """A database whose log can be read; skips where the server does not show it."""
    try:
        settled.sql("create extension if not exists pg_walinspect")
    except psycopg.errors.Error as error:
        pytest.skip(f"the server does not show its log: {error}")
    # The log can be read up to what is flushed.
    with connections[ALIAS].cursor() as cursor:
        cursor.execute("set synchronous_commit = on")
    return settled


@pytest.mark.parametrize(
    ("before", "transition", "after"),
    [
        ([], "enqueue", "ready"),
        ([], "enqueue_later", "delayed"),
        (["enqueue"], "claim", "running"),
        (["enqueue", "claim"], "heartbeat", "running"),
        (["enqueue", "claim"], "complete", "completed"),
        (["enqueue", "claim"], "shed", "ready"),
        (["enqueue", "claim"], "fail", "ready"),
        (["enqueue", "claim"], "park", "suspended"),
        (["enqueue", "claim"], "die", "dead"),
        (["enqueue", "claim"], "rescue", "ready"),
        (["enqueue"], "cancel", "cancelled"),
    ],
)
def test_transition_writes_the_index_entries_that_the_docs_say(
    logged: ScratchDatabase, before: list[str], transition: str, after: str
) -> None:
    """No transition writes an entry more than its line in the table."""
    work = Work(COUNT)
    for step in before:
        getattr(work, step)()
    if transition == "rescue":
        logged.sql(EXPIRE)

    begin = logged.value("select pg_current_wal_insert_lsn()::text")
    getattr(work, transition)()
    end = logged.value("select pg_current_wal_flush_lsn()::text")

    assert logged.sql("select state, count(*) from x_jobs group by 1") == [(after, COUNT)]
    assert dict(logged.sql(ENTRIES, [COUNT, begin, end])) == COSTS[transition]


def test_run_without_a_failure_writes_seven_index_entries() -> None:
    """Enqueue, claim and complete together; the sum is what a busy site pays."""
    assert sum(sum(COSTS[name].values()) for name in ("enqueue", "claim", "complete")) == 7
