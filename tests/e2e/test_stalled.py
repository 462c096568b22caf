"""A statement of the worker that hangs: in a lock, while the lease runs out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from tests.app.jobs import gated, note
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import Database, eventually, fact

VALID = "select count(*) from x_job_leases where expires_at > x_now() and holder = %s::uuid"
CLAIMED = "select coalesce(worker::text, '') from x_jobs where name = 'tests.note'"
BLOCKED = (
    "select count(*) from pg_stat_activity"
    " where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0"
)


@contextmanager
def holding(database: Database, lock: str, *values: Any) -> Iterator[None]:
    """Hold a lock in a transaction that ends with the block."""
    with psycopg.connect(database.url) as holder:
        holder.execute(lock, values)
        yield


def test_worker_whose_renewals_hang_stops_acting_and_others_take_over(
    database: Database, start_worker: StartWorker
) -> None:
    """Its body that looks is told, its body that does not writes nothing, and it comes back."""
    gated.enqueue(label="looks", gate="gate", checks=True)
    gated.enqueue(label="blind", gate="late")
    stalled = start_worker("--threads", "2")
    old = stalled.wait_until_started()
    eventually(lambda: database.effects() == 2, what="two running bodies")

    with holding(database, "select 1 from x_job_leases where holder = %s::uuid for update", old):
        eventually(lambda: database.value(BLOCKED) > 0, what="a renewal that hangs")
        eventually(lambda: stalled.log_lines("jobs.worker.lease_lost"), what="a lease given up")
        second = start_worker("--threads", "2")
        other = second.wait_until_started()
        eventually(lambda: database.effects() == 4, what="both bodies elsewhere")
        database.open("gate")
        database.open("late")
        eventually(lambda: database.count("completed") == 2, what="both done elsewhere")
        eventually(lambda: stalled.log_lines("jobs.claim.lost"), what="a late end refused")
        ended = rows(database)
    # The lock is gone: it registers anew and works on.
    assert second.stop() == 0
    note.enqueue(label="later")
    eventually(lambda: database.count("completed") == 3, what="a job after the stall")

    assert [row[1:5] for row in ended] == [("completed", other, 2, 1)] * 2
    assert rows(database)[:2] == ended
    [late] = stalled.log_lines("jobs.claim.lost")
    assert (fact(late, "worker"), fact(late, "token")) == (old, "1")
    assert database.value("select worker::text from x_jobs where name = 'tests.note'") != old
    assert stalled.stop() == 0
    assert database.value("select count(*) from x_job_leases") == 0


def rows(database: Database) -> list[tuple[Any, ...]]:
    """Return every job row with its version, in the order of enqueueing."""
    return database.rows(
        "select id, state, worker::text, token, lost_leases, result, xmin::text"
        " from x_jobs order by id"
    )


def test_claim_that_commits_after_the_lease_has_ended_is_another_workers(
    database: Database, start_worker: StartWorker
) -> None:
    """The worker stood still while its claim hung in a lock; what came of it, it never begins."""
    stalled = start_worker("--threads", "1")
    old = stalled.wait_until_started()
    gated.enqueue(label="before", gate="gate")
    eventually(lambda: database.effects() == 1, what="a busy thread")
    note.enqueue(label="held")

    with holding(database, "lock table x_jobs in share row exclusive mode"):
        database.open("gate")
        eventually(lambda: database.value(BLOCKED) == 2, what="an ack and a claim that hang")
        stalled.freeze()
        eventually(lambda: database.value(VALID, old) == 0, what="the end of its lease")
    eventually(lambda: database.value(CLAIMED) == old, what="the claim went through")
    second = start_worker("--threads", "1")
    other = second.wait_until_started()
    eventually(lambda: database.count("completed") == 2, what="the second worker ran it")
    stalled.thaw()
    eventually(lambda: stalled.log_lines("jobs.worker.lease_lost"), what="a lost lease noticed")

    assert stalled.stop() == 0
    assert database.rows(
        "select name, worker::text, token, attempt, lost_leases from x_jobs order by id"
    ) == [("tests.gated", old, 1, 1, 0), ("tests.note", other, 2, 1, 1)]
    assert database.effects("held") == 1
    assert second.stop() == 0
