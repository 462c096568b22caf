"""Each CHECK refuses what it is for."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.migrations import release_3_0
from tests.migrations.database import ScratchDatabase

REFUSED = {
    "x_jobs_state_known": "update x_jobs set state = 'paused'",
    "x_jobs_priority_in_range": "update x_jobs set priority = 101",
    "x_jobs_counts_not_negative": "update x_jobs set attempt = -1",
    "x_jobs_tenant_null_not_empty": "update x_jobs set tenant_id = ''",
    "x_job_steps_status_known": "insert into x_job_steps (job_id, run_id, name, position, status)"
    " values (gen_random_uuid(), gen_random_uuid(), 'a', 1, 'done')",
    "x_job_leases_kind_known": "insert into x_job_leases (kind, name, holder, expires_at)"
    " values ('right', 'a', gen_random_uuid(), now())",
    "x_backfills_status_known": "insert into x_backfills (id, name, status, checksum)"
    " values (gen_random_uuid(), 'a', 'done', '')",
}


@pytest.fixture(params=["forwards", "round-trip"])
def checked(request: pytest.FixtureRequest, current: ScratchDatabase) -> ScratchDatabase:
    """The last step with one job, reached once, and reached again after the way back."""
    release_3_0.insert(current)
    if request.param == "round-trip":
        current.migrate("0003_widen_jobs")
        current.migrate()
    return current


def test_check_refuses_what_it_is_for(checked: ScratchDatabase) -> None:
    """Every constraint that the models declare is enforced, by its name."""
    named: dict[str, Any] = {}
    for constraint, statement in REFUSED.items():
        with pytest.raises(psycopg.errors.CheckViolation) as refused:
            checked.sql(statement)
        named[constraint] = refused.value.diag.constraint_name

    assert named == {constraint: constraint for constraint in REFUSED}


def test_every_check_is_validated(checked: ScratchDatabase) -> None:
    """None is left NOT VALID, and none is missing from the test above."""
    found = dict(
        checked.sql(
            "select conname, convalidated from pg_constraint"
            " where contype = 'c' and conrelid::regclass::text like 'x\\_%'"
        )
    )

    assert found == dict.fromkeys(REFUSED, True)


def test_check_of_the_range_accepts_its_ends(settled: ScratchDatabase) -> None:
    """Priorities go from -100 to 100, both included."""
    release_3_0.insert(settled, idempotency_key="low", priority=-100)
    release_3_0.insert(settled, idempotency_key="high", priority=100)

    assert settled.value("select count(*) from x_jobs") == 2
