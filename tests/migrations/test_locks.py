"""What a migration makes others wait for."""

from __future__ import annotations

import pytest

from tests.migrations import release_3_0
from tests.migrations.database import ScratchDatabase
from ultimate_jobs.errors import MigrationLocked
from ultimate_jobs.migrations import _locking

AT_ONCE = [
    ("0001_initial", "0003_widen_jobs"),
    ("0003_widen_jobs", "0004_check_states"),
    ("0007_tune_storage", "0008_protect_history"),
]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up after a moment, so that the test does not wait for real patience."""
    monkeypatch.setattr(_locking, "TRY_SECONDS", 0.05)
    monkeypatch.setattr(_locking, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(_locking, "TRIES", 3)


@pytest.mark.parametrize(("before", "step"), AT_ONCE)
def test_migrate_table_that_stays_locked_gives_up_and_changes_nothing(
    empty: ScratchDatabase, impatient: None, before: str, step: str
) -> None:
    """A transaction that writes for hours stops the migration, not the app; it is named."""
    empty.migrate(before)
    release_3_0.insert(empty)
    writer = empty.connect()
    writer.execute("begin")
    writer.execute("update x_jobs set updated_at = now()")

    with pytest.raises(MigrationLocked) as refused:
        empty.migrate(step)

    assert str(writer.info.backend_pid) in refused.value.cause
    assert step not in empty.applied()
    writer.execute("rollback")
    empty.migrate(step)
    assert step in empty.applied()
    writer.close()


def test_migrate_that_waits_for_a_lock_lets_others_write(
    shipped: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a long transaction the migration tries and steps back; writes go on in between."""
    monkeypatch.setattr(_locking, "TRY_SECONDS", 0.02)
    monkeypatch.setattr(_locking, "PAUSE_SECONDS", 0.02)
    long = shipped.connect()
    long.execute("begin")
    long.execute("select count(*) from x_jobs")

    migrate = shipped.start_migrate()
    shipped.wait_until(lambda: shipped.waiting_for("x_jobs") > 0, "the migration does not wait")
    for number in range(20):
        release_3_0.insert(shipped, idempotency_key=f"key_{number}")
    held_up = not migrate.done()
    long.execute("commit")
    migrate.result(timeout=20)

    assert held_up
    assert shipped.value("select count(*) from x_jobs") == 20
    assert shipped.applied() == shipped.steps
    long.close()


@pytest.mark.parametrize(
    "step", ["0006_validate_checks", "0007_tune_storage", "0009_build_claim_indexes"]
)
def test_migrate_slow_step_takes_no_lock_that_a_writer_meets(
    shipped: ScratchDatabase, step: str
) -> None:
    """The steps that read the whole table run beside a transaction that writes to it."""
    release_3_0.fill(shipped)
    shipped.migrate(shipped.steps[shipped.steps.index(step) - 1])
    writer = shipped.connect()
    writer.execute("begin")
    writer.execute("update x_jobs set updated_at = now() where idempotency_key = 'key_7'")

    migrate = shipped.start_migrate(step)
    shipped.wait_until(
        lambda: migrate.done() or shipped.builder() is not None, "the step does not get far"
    )
    release_3_0.insert(shipped, idempotency_key="meanwhile")
    writer.execute("commit")
    migrate.result(timeout=20)

    assert step in shipped.applied()
    writer.close()
