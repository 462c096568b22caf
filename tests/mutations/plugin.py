"""A pytest plugin that breaks one of the three spellings of the key's namespace.

The index, the conflict target and the lookup must agree; ``ULTIMATE_JOBS_MUTATION`` names the one
to break. Loaded only by the processes that ``test_namespace.py`` starts.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from django.db import connection

from ultimate_jobs import sql
from ultimate_jobs.drivers.memory import jobs as memory_jobs
from ultimate_jobs.drivers.memory.rows import Row

LIVE_INDEX = "x_jobs_name_tenant_idempotency_live_idx"
TARGET = "on conflict (name, (coalesce(tenant_id, '')), idempotency_key)"
SAME_TENANT = "and coalesce(j.tenant_id, '') = coalesce(asked.tenant, '')"


@pytest.fixture(scope="session", autouse=True)
def mutated(request: pytest.FixtureRequest) -> None:
    """Break what the environment names, for the whole run."""
    MUTATIONS[os.environ["ULTIMATE_JOBS_MUTATION"]](request)


def break_index(request: pytest.FixtureRequest) -> None:
    """Enforce the key without its tenant, as 3.0.0 did, under the index's present name."""
    request.getfixturevalue("django_db_setup")
    with request.getfixturevalue("django_db_blocker").unblock(), connection.cursor() as cursor:
        cursor.execute(f"drop index {LIVE_INDEX}")
        cursor.execute(
            f"create unique index {LIVE_INDEX} on x_jobs (name, idempotency_key) "
            "where state in ('ready', 'delayed', 'running', 'suspended')"
        )
    connection.close()


def break_conflict_target(request: pytest.FixtureRequest) -> None:
    """Name a conflict target that leaves the tenant out."""
    for name in ("one", "many"):
        replace(name, TARGET, "on conflict (name, idempotency_key)")


def break_rerun(request: pytest.FixtureRequest) -> None:
    """Ask the running job of any tenant for one more run."""
    same_tenant = "and coalesce(j.tenant_id, '') = coalesce(%(tenant)s::text, '')"
    replace("request_rerun", same_tenant, "")


def break_lookup(request: pytest.FixtureRequest) -> None:
    """Look for the holder of a key in every tenant."""
    for name in ("share_waiting", "find_running"):
        replace(name, SAME_TENANT, "")


def break_memory_index(request: pytest.FixtureRequest) -> None:
    """File the memory driver's rows under a namespace without the tenant."""
    Row.triple = property(lambda row: (row.name, "", row.key))  # type: ignore[assignment]


def break_memory_lookup(request: pytest.FixtureRequest) -> None:
    """Look among the memory driver's rows without the tenant."""
    assert callable(memory_jobs._triple)
    memory_jobs._triple = lambda asked: (asked.name, "", asked.key)


def replace(name: str, old: str, new: str) -> None:
    statements = sql.statements("enqueue")
    assert old in statements[name], f"{name} is no longer spelled like this"
    statements[name] = statements[name].replace(old, new)


MUTATIONS: dict[str, Callable[[pytest.FixtureRequest], None]] = {
    "nothing": lambda request: None,
    "index": break_index,
    "conflict_target": break_conflict_target,
    "lookup": break_lookup,
    "rerun": break_rerun,
    "memory_index": break_memory_index,
    "memory_lookup": break_memory_lookup,
}
