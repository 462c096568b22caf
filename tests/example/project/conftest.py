"""Collected only under ``example_project.settings``; ``test_project.py`` runs them there."""

from __future__ import annotations

import os
from uuid import UUID, uuid4

import pytest
from django.core.cache import cache

from ultimate_jobs import JobContext
from ultimate_jobs.clock import to_datetime
from ultimate_jobs.types import Claim

UNDER_ITS_SETTINGS = os.environ.get("DJANGO_SETTINGS_MODULE") == "example_project.settings"
collect_ignore_glob = [] if UNDER_ITS_SETTINGS else ["test_*.py"]


@pytest.fixture(autouse=True)
def empty_cache() -> None:
    """A language that another test's tenant had must not stay."""
    cache.clear()


@pytest.fixture
def context():
    """Make what a worker hands to a body."""

    def make(tenant: str, *, attempt: int = 1, job_id: UUID | None = None) -> JobContext:
        return JobContext(
            Claim(
                id=job_id or uuid4(),
                run_id=uuid4(),
                name="places.test",
                queue="places",
                tenant=tenant,
                key="test",
                payload="{}",
                worker=uuid4(),
                token=1,
                attempt=attempt,
                max_attempts=5,
                lost_leases=0,
                retry_count=0,
                priority=0,
                due_at=to_datetime(0),
                traceparent=None,
            )
        )

    return make


@pytest.fixture
def places(db: None) -> list[str]:
    """Some places, in the languages of the first tenants."""
    from example_project.places.demo.load import load_subdivisions

    return load_subdivisions(["uk", "hi"], limit=30)
