"""A build that is cut off, a leftover, and an index that somebody made by hand."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connections

from tests.migrations import release_3_0
from tests.migrations.database import ALIAS, ScratchDatabase
from tests.migrations.release_3_0 import CLAIM_INDEX, LIVE_SQL, NEW_INDEX, OLD_INDEX
from ultimate_jobs.errors import MigrationIndexRefused

Connection = psycopg.Connection[tuple[Any, ...]]

BEFORE = {
    "x_jobs_ready_idx": "0008_protect_history",
    "x_jobs_dead_idx": "0008_protect_history",
    NEW_INDEX: "0009_build_claim_indexes",
}


@pytest.mark.parametrize("kill", ["pg_cancel_backend", "pg_terminate_backend"])
@pytest.mark.parametrize("index", BEFORE)
def test_migrate_after_an_interrupted_build_replaces_the_leftover(
    shipped: ScratchDatabase, index: str, kill: str
) -> None:
    """A build that was cut off leaves an invalid index; the next migrate makes it anew."""
    release_3_0.fill(shipped)
    shipped.migrate(BEFORE[index])
    interrupt_build(shipped, index, kill)
    assert release_3_0.indexes(shipped)[index] is False
    assert release_3_0.indexes(shipped)[OLD_INDEX]

    shipped.migrate()

    found = release_3_0.indexes(shipped)
    assert found[index]
    assert all(found.values())
    assert OLD_INDEX not in found
    assert shipped.applied() == shipped.steps


def interrupt_build(database: ScratchDatabase, index: str, kill: str) -> None:
    """Migrate until the index stands half made behind an open transaction, then cut it off."""
    writers = cycle([database.connect(), database.connect()])
    holder = hold(next(writers))
    migrate = database.start_migrate()
    database.wait_until(lambda: database.builder() is not None, "no build begins")
    # Each build waits three times. One of two transactions is open at every moment, so that the
    # builds before the one that is meant go on, and none runs past it.
    while index not in release_3_0.indexes(database):
        following = hold(next(writers))
        holder.execute("rollback")
        holder = following
        database.wait_until(lambda: database.builder() is not None, "no build follows")
    database.sql(f"select {kill}(%s)", [database.builder()])
    with pytest.raises(DatabaseError):
        migrate.result(timeout=20)
    for writer in (next(writers), next(writers)):
        writer.close()


def hold(writer: Connection) -> Connection:
    """Open a transaction that a concurrent build waits for."""
    writer.execute("begin")
    writer.execute("lock table x_jobs in row exclusive mode")
    return writer


def test_migrate_backwards_after_an_interrupted_build_replaces_the_leftover(
    current: ScratchDatabase,
) -> None:
    """The same for the index of 3.0.0, which only the way back builds."""
    release_3_0.insert(current)
    writer = hold(current.connect())
    migrate = current.start_migrate("0010_build_tenant_key_index")
    current.wait_until(lambda: current.builder() is not None, "no build begins")
    current.sql("select pg_cancel_backend(%s)", [current.builder()])
    with pytest.raises(DatabaseError):
        migrate.result(timeout=20)
    writer.execute("rollback")
    writer.close()
    assert release_3_0.indexes(current)[OLD_INDEX] is False
    assert release_3_0.indexes(current)[NEW_INDEX]

    current.migrate("0010_build_tenant_key_index")

    found = release_3_0.indexes(current)
    assert found[OLD_INDEX]
    assert found[CLAIM_INDEX]


def test_migrate_index_built_by_hand_is_taken_as_it_is(shipped: ScratchDatabase) -> None:
    """Who built the index in a quiet hour does not pay for it twice; storage options are theirs."""
    release_3_0.fill(shipped)
    shipped.sql(
        f"create unique index concurrently {NEW_INDEX}"
        " on x_jobs (name, (coalesce(tenant_id, '')), idempotency_key)"
        f" with (fillfactor = 80) where state in {LIVE_SQL}"
    )
    by_hand = shipped.value("select %s::regclass::oid", [NEW_INDEX])

    shipped.migrate()

    assert shipped.value("select %s::regclass::oid", [NEW_INDEX]) == by_hand


@pytest.mark.parametrize(
    "definition",
    [
        f"unique index {NEW_INDEX} on x_jobs (name, idempotency_key) where state in {LIVE_SQL}",
        f"unique index {NEW_INDEX} on x_jobs (name, (coalesce(tenant_id, '')), idempotency_key)"
        " where state = 'ready'",
        f"index {NEW_INDEX} on x_jobs (name, (coalesce(tenant_id, '')), idempotency_key)"
        f" where state in {LIVE_SQL}",
    ],
    ids=["other-columns", "other-predicate", "not-unique"],
)
def test_migrate_index_of_another_definition_is_refused(
    shipped: ScratchDatabase, definition: str
) -> None:
    """A name is no proof: what would not dedupe as declared replaces nothing."""
    shipped.sql(f"create {definition}")

    with pytest.raises(MigrationIndexRefused) as refused:
        shipped.migrate()

    assert refused.value.fix == f'manage.py dbshell -- -c "DROP INDEX CONCURRENTLY {NEW_INDEX}"'
    assert release_3_0.indexes(shipped)[OLD_INDEX]
    shipped.sql(f"drop index concurrently {NEW_INDEX}")
    shipped.migrate()
    assert release_3_0.indexes(shipped)[NEW_INDEX]


@pytest.mark.parametrize("damage", ["invalid", "gone"])
def test_migrate_successor_that_broke_in_between_is_built_before_anything_is_dropped(
    shipped: ScratchDatabase, damage: str
) -> None:
    """The drop does not trust the step before it: it looks, and builds again what is not valid."""
    release_3_0.fill(shipped)
    shipped.migrate("0010_build_tenant_key_index")
    if damage == "gone":
        shipped.sql(f"drop index {NEW_INDEX}")
    else:
        shipped.sql(
            "update pg_index set indisvalid = false where indexrelid = %s::regclass", [NEW_INDEX]
        )

    shipped.migrate()

    found = release_3_0.indexes(shipped)
    assert found[NEW_INDEX]
    assert OLD_INDEX not in found


def test_migrate_duplicates_that_no_index_kept_out_are_refused(shipped: ScratchDatabase) -> None:
    """A database that lost its index has doubles; they are named, and no leftover stays."""
    shipped.sql(f"drop index {OLD_INDEX}")
    for _ in range(2):
        release_3_0.insert(shipped, tenant_id="acme", idempotency_key="twice")

    with pytest.raises(MigrationIndexRefused, match="twice"):
        shipped.migrate()

    assert NEW_INDEX not in release_3_0.indexes(shipped)


def test_migrate_under_a_short_lock_timeout_still_builds(shipped: ScratchDatabase) -> None:
    """A build outwaits a transaction for longer than the session would wait for a lock."""
    release_3_0.fill(shipped)
    shipped.migrate("0009_build_claim_indexes")
    writer = hold(shipped.connect())

    migrate = shipped.start_migrate(lock_timeout="50ms")
    shipped.wait_until(lambda: shipped.builder() is not None, "no build begins")
    begin = shipped.value("select clock_timestamp()")
    waited = "select clock_timestamp() - %s > interval '150 ms'"
    shipped.wait_until(lambda: shipped.value(waited, [begin]), "time stands still")
    outwaits = not migrate.done()
    writer.execute("rollback")
    migrate.result(timeout=20)

    assert outwaits
    assert release_3_0.indexes(shipped)[NEW_INDEX]
    writer.close()


def test_migrate_build_gives_the_sessions_timeouts_back(shipped: ScratchDatabase) -> None:
    """What a build lifts, and the lock that it takes, are as before once it is done."""
    shipped.migrate("0009_build_claim_indexes")
    with connections[ALIAS].cursor() as cursor:
        cursor.execute("set lock_timeout = '7s'")
        cursor.execute("set statement_timeout = '9s'")

        shipped.migrate()

        cursor.execute(
            "select current_setting('lock_timeout'), current_setting('statement_timeout')"
        )
        after = cursor.fetchone()
        cursor.execute("reset lock_timeout")
        cursor.execute("reset statement_timeout")
    assert after == ("7s", "9s")
    held = (
        "select count(*) from pg_locks where locktype = 'advisory' and database ="
        " (select oid from pg_database where datname = current_database())"
    )
    assert shipped.value(held) == 0
