"""What becomes of the rows that 3.0.0 wrote."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import connections

from tests.migrations import release_3_0
from tests.migrations.database import ALIAS, RELEASE_3_0, ScratchDatabase
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.errors import JobsSchema
from ultimate_jobs.types import ClaimRequest, WorkerCard

FINISHED = "state in ('completed', 'dead', 'cancelled')"
WAITING = "state in ('ready', 'delayed', 'suspended')"


def test_migrate_keeps_every_value_that_3_0_wrote(shipped: ScratchDatabase) -> None:
    """No column of any row of the earlier release changes, forwards or backwards."""
    release_3_0.fill(shipped)
    before = release_3_0.rows(shipped)

    shipped.migrate()
    forwards = release_3_0.rows(shipped)
    shipped.migrate(RELEASE_3_0)

    assert len(before) == 700
    assert forwards == before
    assert release_3_0.rows(shipped) == before


def test_migrate_does_not_touch_a_finished_row(shipped: ScratchDatabase) -> None:
    """A finished row keeps its place and its xmin: history is neither rewritten nor updated."""
    release_3_0.fill(shipped)
    before = release_3_0.places(shipped, where=FINISHED)
    file_before = shipped.value("select pg_relation_filenode('x_jobs')")

    shipped.migrate()
    shipped.migrate(RELEASE_3_0)

    assert len(before) == 300
    assert release_3_0.places(shipped, where=FINISHED) == before
    assert shipped.value("select pg_relation_filenode('x_jobs')") == file_before


def test_migrate_gives_new_columns_their_defaults_without_a_rewrite(
    shipped: ScratchDatabase,
) -> None:
    """Every added column is NULL or comes from the catalog; the rows do not know of them."""
    release_3_0.fill(shipped)
    before = release_3_0.places(shipped)

    shipped.migrate("0003_widen_jobs")

    assert release_3_0.places(shipped) == before
    assert shipped.sql(
        "select distinct token, lost_leases, retry_count, claimed_at, finished_at,"
        " cancel_requested_at, result, rerun from x_jobs"
    ) == [(0, 0, 0, None, None, None, None, None)]
    missing = shipped.value(
        "select array_agg(attname::text order by attname) from pg_attribute"
        " where attrelid = 'x_jobs'::regclass and atthasmissing"
    )
    assert missing == ["deferrals", "due_at", "lost_leases", "retry_count", "token"]


def test_migrate_waiting_row_is_owed_since_its_run_at(shipped: ScratchDatabase) -> None:
    """Depth and age of the old backlog are told from the first minute after the upgrade."""
    release_3_0.fill(shipped)

    shipped.migrate()

    assert shipped.value(f"select count(*) from x_jobs where {WAITING}") == 300
    assert shipped.value(f"select count(*) from x_jobs where {WAITING} and due_at <> run_at") == 0


def test_migrate_row_that_is_locked_is_filled_once_it_is_free(shipped: ScratchDatabase) -> None:
    """A row in somebody's open transaction is passed over, and comes when that has ended."""
    release_3_0.fill(shipped, 70)
    shipped.migrate("0011_drop_superseded_indexes")
    holder = shipped.connect()
    holder.execute("begin")
    holder.execute("select 1 from x_jobs where idempotency_key = 'key_7' for update")

    migrate = shipped.start_migrate()
    others = f"select count(*) from x_jobs where {WAITING} and due_at <> run_at"
    shipped.wait_until(lambda: shipped.value(others) == 1, "the free rows are not filled")
    waited = not migrate.done()
    holder.execute("commit")
    migrate.result(timeout=20)

    assert waited
    assert shipped.value(others) == 0
    holder.close()


def test_migrate_row_that_a_worker_claimed_keeps_its_due_time(shipped: ScratchDatabase) -> None:
    """A worker of this release that already runs is not overruled by the fill."""
    shipped.migrate("0011_drop_superseded_indexes")
    claimed = shipped.value(
        "insert into x_jobs (id, run_id, name, queue, idempotency_key, payload, state, token,"
        " run_at, due_at) values (gen_random_uuid(), gen_random_uuid(), 'a', 'q', 'k', '{}',"
        " 'ready', 1, now() + interval '1 hour', now()) returning id"
    )

    shipped.migrate()

    assert shipped.value("select due_at <> run_at from x_jobs where id = %s", [claimed])


def test_migrate_fill_walks_live_rows_in_batches(
    shipped: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is a transaction of its own, and no live row is missed between two of them."""
    release_3_0.fill(shipped, 700)
    shipped.migrate("0011_drop_superseded_indexes")
    monkeypatch.setattr(f"{shipped.module('0012_fill_due_at')}.BATCH", 9)

    shipped.migrate()

    # A row that was updated keeps its number of transactions: one per batch, not one for all.
    assert shipped.value(f"select count(*) from x_jobs where {WAITING} and due_at <> run_at") == 0
    writers = shipped.value(f"select count(distinct xmin::text) from x_jobs where {WAITING}")
    assert writers >= 300 / 9


def test_migrate_running_row_stays_running_until_it_is_rescued(shipped: ScratchDatabase) -> None:
    """A job that a worker of 3.0.0 holds is not lost, and goes to a worker of this release."""
    held = release_3_0.insert(shipped, state="running", worker=uuid4(), attempt=2, max_attempts=5)

    shipped.migrate()
    state, worker, attempt = shipped.sql("select state, worker, attempt from x_jobs")[0]
    assert (state, attempt) == ("running", 2)
    assert worker is not None

    driver, successor = PostgresDriver(ALIAS), uuid4()
    driver.leases.register(
        WorkerCard(worker=successor, names=("send",), queues=None, hostname="h", pid=1, threads=1)
    )
    rescued = driver.leases.rescue(limit=10)
    claims = driver.claim(ClaimRequest(worker=successor, names=("send",), limit=10))

    assert [lost.id for lost in rescued] == [held]
    assert [claim.id for claim in claims] == [held]


@pytest.mark.parametrize("state", ["ready", "completed"])
def test_migrate_empty_tenant_becomes_null(shipped: ScratchDatabase, state: str) -> None:
    """'' is no tenant: the row is stored as this release would store it."""
    empty = release_3_0.insert(shipped, tenant_id="", state=state)
    other = release_3_0.insert(shipped, tenant_id="acme", state=state, idempotency_key="k2")

    shipped.migrate()

    tenants = dict(shipped.sql("select id, tenant_id from x_jobs"))
    assert tenants == {empty: None, other: "acme"}


def test_migrate_number_out_of_range_is_brought_into_it(shipped: ScratchDatabase) -> None:
    """What 3.0.0 let in does not stop the upgrade, and nothing else of the row changes."""
    release_3_0.insert(shipped, idempotency_key="high", priority=1000, attempt=-3)
    release_3_0.insert(shipped, idempotency_key="low", priority=-1000, attempt=3)
    release_3_0.insert(shipped, idempotency_key="fine", priority=7, attempt=1)

    shipped.migrate()

    found = shipped.sql("select idempotency_key, priority, attempt from x_jobs order by 1")
    assert found == [("fine", 7, 1), ("high", 100, 0), ("low", -100, 3)]


def test_migrate_normalises_every_page_of_the_table(
    shipped: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batches of pages leave no gap between them."""
    release_3_0.fill(shipped, 700)
    shipped.sql("update x_jobs set tenant_id = '' where tenant_id is null")
    monkeypatch.setattr(f"{shipped.module('0005_normalise_jobs')}.PAGES", 3)

    shipped.migrate()

    assert shipped.value("select pg_relation_size('x_jobs') / 8192") > 9
    assert shipped.value("select count(*) from x_jobs where tenant_id is null") == 233
    assert shipped.value("select count(*) from x_jobs where tenant_id = ''") == 0


def test_migrate_unknown_state_stops_before_the_indexes_change(shipped: ScratchDatabase) -> None:
    """A row that nobody can decode is left as it is, and named by the constraint it breaks."""
    release_3_0.insert(shipped, state="paused")

    with pytest.raises(Exception, match="x_jobs_state_known"):
        shipped.migrate()

    assert shipped.applied()[-1] == "0005_normalise_jobs"
    assert release_3_0.indexes(shipped)[release_3_0.OLD_INDEX]
    assert shipped.value("select state from x_jobs") == "paused"


def test_enqueue_before_the_migration_names_the_command_to_run(shipped: ScratchDatabase) -> None:
    """An app of this release on a database of 3.0.0 says so, with the fix."""
    with pytest.raises(JobsSchema) as refused:
        PostgresDriver(ALIAS).leases.workers()

    assert refused.value.fix == f"manage.py migrate ultimate_jobs --database {ALIAS}"
    connections[ALIAS].close()
