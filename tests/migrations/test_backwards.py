"""The way back: refused while two tenants share a key, whole otherwise."""

from __future__ import annotations

import pytest

from tests.migrations import release_3_0
from tests.migrations.database import RELEASE_3_0, ScratchDatabase
from tests.migrations.release_3_0 import CLAIM_INDEX, NEW_INDEX, OLD_INDEX
from ultimate_jobs.errors import MigrationKeysShared

BEFORE_DROP = "0010_build_tenant_key_index"


def share(database: ScratchDatabase, key: str, *tenants: str | None, state: str = "ready") -> None:
    """Let several tenants hold one key."""
    for tenant in tenants:
        release_3_0.insert(database, tenant_id=tenant, idempotency_key=key, state=state)


@pytest.mark.parametrize("target", [BEFORE_DROP, RELEASE_3_0, None], ids=["one", "3.0.0", "zero"])
def test_migrate_backwards_with_shared_keys_refuses_and_changes_nothing(
    current: ScratchDatabase, target: str | None
) -> None:
    """The keys and their tenants are listed, and rows, indexes and the record stay as they are."""
    share(current, "invoice:1", None, "acme", "globex")
    share(current, "it's", "acme", "globex", state="running")
    share(current, "over", "acme", "globex", state="completed")
    before = state_of(current)

    with pytest.raises(MigrationKeysShared) as refused:
        current.migrate(target)

    assert refused.value.code == "X_MIGRATION_KEYS_SHARED"
    assert "(2 in all)" in refused.value.cause
    assert "send 'invoice:1' of '', 'acme', 'globex'" in refused.value.cause
    assert """send "it's" of 'acme', 'globex\'""" in refused.value.cause
    assert "'over'" not in refused.value.cause
    assert refused.value.fix == "manage.py jobs ls --key invoice:1"
    assert state_of(current)["indexes"] == before["indexes"]
    assert state_of(current)["rows"] == before["rows"]
    # 0012 changes nothing in the database on its way back, and is taken off the record before.
    assert set(before["applied"]) - set(current.applied()) <= {"0012_fill_due_at"}


def state_of(database: ScratchDatabase) -> dict[str, object]:
    return {
        "applied": database.applied(),
        "rows": release_3_0.places(database),
        "indexes": database.sql(
            "select indexrelid, indisvalid from pg_index where indrelid = 'x_jobs'::regclass"
            " order by 1"
        ),
    }


def test_migrate_backwards_lists_twenty_keys_and_counts_the_rest(current: ScratchDatabase) -> None:
    """The message stays readable where a thousand keys are shared."""
    current.sql(
        "insert into x_jobs (id, run_id, name, queue, idempotency_key, payload, state, tenant_id)"
        " select gen_random_uuid(), gen_random_uuid(), 'send', 'q', 'key_' || to_char(n, 'FM0000'),"
        " '{}', 'ready', tenant from generate_series(1, 1000) n,"
        " (values ('acme'), ('globex')) t(tenant)"
    )

    with pytest.raises(MigrationKeysShared) as refused:
        current.migrate(RELEASE_3_0)

    assert "(1000 in all)" in refused.value.cause
    assert refused.value.cause.count("'acme', 'globex'") == 20
    assert refused.value.cause.endswith("and 980 more")
    assert "\n" not in refused.value.cause


def test_migrate_backwards_works_once_the_shared_keys_are_gone(current: ScratchDatabase) -> None:
    """What was refused before goes through, and 3.0.0 finds its indexes."""
    share(current, "invoice:1", "acme", "globex")
    with pytest.raises(MigrationKeysShared):
        current.migrate(RELEASE_3_0)

    current.sql("update x_jobs set state = 'cancelled' where tenant_id = 'globex'")
    current.migrate(RELEASE_3_0)

    found = release_3_0.indexes(current)
    assert found == {"x_jobs_pkey": True, OLD_INDEX: True, CLAIM_INDEX: True}
    assert current.applied() == [RELEASE_3_0]


def test_migrate_backwards_collision_during_the_build_refuses_the_same_way(
    current: ScratchDatabase,
) -> None:
    """A key that is shared after the first look makes the build fail; no leftover stays."""
    share(current, "invoice:1", "acme")
    second = current.connect()
    second.execute("begin")
    second.execute(
        "insert into x_jobs (id, run_id, name, queue, idempotency_key, payload, state, tenant_id)"
        " values (gen_random_uuid(), gen_random_uuid(), 'send', 'q', 'invoice:1', '{}', 'ready',"
        " 'globex')"
    )

    migrate = current.start_migrate(BEFORE_DROP)
    current.wait_until(lambda: current.builder() is not None, "no build begins")
    second.execute("commit")
    with pytest.raises(MigrationKeysShared, match="invoice:1"):
        migrate.result(timeout=20)

    found = release_3_0.indexes(current)
    assert OLD_INDEX not in found
    assert CLAIM_INDEX not in found
    assert found[NEW_INDEX]
    second.close()


def test_migrate_backwards_keeps_this_releases_index_until_the_older_is_valid(
    current: ScratchDatabase,
) -> None:
    """The way back builds the older index again where somebody dropped it in between."""
    current.migrate(BEFORE_DROP)
    current.sql(f"drop index {OLD_INDEX}")

    current.migrate("0009_build_claim_indexes")

    found = release_3_0.indexes(current)
    assert found[OLD_INDEX]
    assert NEW_INDEX not in found


def test_migrate_to_zero_leaves_nothing_of_this_app(empty: ScratchDatabase) -> None:
    """Tables, functions and triggers are gone, and the way forwards is open again."""
    empty.migrate()
    release_3_0.insert(empty)

    empty.migrate(None)

    tables = "select relname from pg_class where relname ~ '^x_'"
    functions = "select proname from pg_proc where proname ~ '^(x_now|pgtrigger_)'"
    assert empty.sql(tables) == []
    assert empty.sql(functions) == []
    assert empty.applied() == []
    empty.migrate()
    assert empty.applied() == empty.steps


def test_migrate_backwards_and_forwards_again_ends_where_it_began(
    current: ScratchDatabase,
) -> None:
    """Two ways to the last step make one schema."""
    once = schema_of(current)

    current.migrate(RELEASE_3_0)
    current.migrate()

    assert schema_of(current) == once


def schema_of(database: ScratchDatabase) -> list[tuple[object, ...]]:
    return database.sql(
        """
        select 'column', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
            a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
        from pg_class c join pg_attribute a on a.attrelid = c.oid
        left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
        where c.relname like 'x\\_%' and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
        union all
        select 'index', indexname, indexdef, '', true, '' from pg_indexes
        where tablename like 'x\\_%'
        union all
        select 'constraint', conname, pg_get_constraintdef(oid), '', convalidated, ''
        from pg_constraint where conrelid::regclass::text like 'x\\_%' and contype <> 'n'
        union all
        select 'trigger', tgname, pg_get_triggerdef(oid), '', tgenabled = 'O', ''
        from pg_trigger where tgrelid::regclass::text like 'x\\_%' and not tgisinternal
        union all
        select 'storage', relname, array_to_string(reloptions, ','), '', true, ''
        from pg_class where relname like 'x\\_%'
        order by 1, 2, 3
        """
    )
