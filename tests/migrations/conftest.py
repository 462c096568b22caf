"""Fixtures of the migration tests: a database of their own at a known step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.migrations.database import RELEASE_3_0, ScratchDatabase, scratch_database


@pytest.fixture(scope="package")
def scratch(django_db_blocker: Any) -> Iterator[ScratchDatabase]:
    """One database for all tests of this folder."""
    with django_db_blocker.unblock(), scratch_database() as database:
        yield database


@pytest.fixture
def empty(scratch: ScratchDatabase, django_db_blocker: Any) -> Iterator[ScratchDatabase]:
    """A database without a table."""
    scratch.reset()
    with django_db_blocker.unblock():
        yield scratch


@pytest.fixture
def shipped(empty: ScratchDatabase) -> ScratchDatabase:
    """A database as 3.0.0 left it, without rows."""
    empty.migrate(RELEASE_3_0)
    return empty


@pytest.fixture
def current(empty: ScratchDatabase) -> ScratchDatabase:
    """A database at the last step, without rows."""
    empty.migrate()
    return empty


@pytest.fixture
def settled(scratch: ScratchDatabase, django_db_blocker: Any) -> Iterator[ScratchDatabase]:
    """A database at the last step, emptied, for tests that leave its schema as it is."""
    with django_db_blocker.unblock():
        if scratch.applied() != scratch.steps:
            scratch.reset()
            scratch.migrate()
        tables = "x_jobs, x_job_events, x_job_steps, x_job_leases, x_outbox, x_backfills"
        scratch.sql(f"truncate {tables} restart identity")
        yield scratch
