"""Tenants: nobody sees, stops or brings back another tenant's job."""

from __future__ import annotations

import pytest

from ultimate_jobs.errors import JobNotFound
from ultimate_jobs.states import JobState
from ultimate_jobs.types import ANY_TENANT, CancelOutcome, TenantScope

from .harness import Harness

OUTSIDE = pytest.mark.parametrize(
    ("owner", "asker"), [("a", "b"), ("a", None), (None, "a"), ("a", "A"), ("a", "")]
)
INSIDE = pytest.mark.parametrize(
    ("owner", "asker"),
    [("a", "a"), (None, None), ("a", ANY_TENANT), (None, ANY_TENANT), (None, ""), ("", None)],
)


@OUTSIDE
def test_get_of_another_tenants_job_finds_nothing(
    driver: Harness, owner: str | None, asker: TenantScope
) -> None:
    """Another tenant's id is not found, as if it did not exist."""
    job_id = driver.enqueue(tenant=owner).id

    record = driver.driver.introspection.get(job_id, tenant=asker)

    assert record is None


@INSIDE
def test_get_within_the_tenant_finds_the_job(
    driver: Harness, owner: str | None, asker: TenantScope
) -> None:
    """A tenant finds its own, the tenantless scope the tenantless, an operator everything."""
    job_id = driver.enqueue(tenant=owner).id

    record = driver.driver.introspection.get(job_id, tenant=asker)

    assert record == driver.get(job_id)


@OUTSIDE
@pytest.mark.parametrize("state", [JobState.READY, JobState.RUNNING, JobState.DEAD])
def test_cancel_of_another_tenants_job_is_not_found(
    driver: Harness, state: JobState, owner: str | None, asker: TenantScope
) -> None:
    """Another tenant's job is not stopped, and not even said to exist."""
    job_id = driver.job_in(state, tenant=owner)
    before, events = driver.get(job_id), driver.events(job_id)

    answer = driver.cancel(job_id, tenant=asker)

    assert (answer.id, answer.outcome, answer.state) == (job_id, CancelOutcome.NOT_FOUND, None)
    assert driver.get(job_id) == before
    assert driver.events(job_id) == events


@INSIDE
def test_cancel_within_the_tenant_ends_the_job(
    driver: Harness, owner: str | None, asker: TenantScope
) -> None:
    """A tenant stops its own, the tenantless scope the tenantless, an operator everything."""
    job_id = driver.enqueue(tenant=owner).id

    answer = driver.cancel(job_id, tenant=asker)

    assert answer.outcome is CancelOutcome.CANCELLED


@OUTSIDE
@pytest.mark.parametrize("state", [JobState.DEAD, JobState.READY])
def test_retry_of_another_tenants_job_is_not_found(
    driver: Harness, state: JobState, owner: str | None, asker: TenantScope
) -> None:
    """Whatever its state, another tenant's job is not found: the refusal tells nothing of it."""
    job_id = driver.job_in(state, tenant=owner)
    before = driver.get(job_id)

    with pytest.raises(JobNotFound) as refusal:
        driver.retry(job_id, tenant=asker)

    assert refusal.value.code == "X_JOB_NOT_FOUND"
    assert driver.get(job_id) == before


@INSIDE
def test_retry_within_the_tenant_brings_the_job_back(
    driver: Harness, owner: str | None, asker: TenantScope
) -> None:
    """A tenant retries its own, the tenantless scope the tenantless, an operator everything."""
    job_id = driver.job_in(JobState.DEAD, tenant=owner)

    record = driver.retry(job_id, tenant=asker)

    assert record.state is JobState.READY


@pytest.mark.parametrize(
    ("asker", "found"), [("a", {"a"}), ("b", {"b"}), (None, {None}), (ANY_TENANT, {"a", "b", None})]
)
def test_find_within_a_tenant_lists_only_its_jobs(
    driver: Harness, asker: TenantScope, found: set[str | None]
) -> None:
    """A list holds the asked tenant's jobs and no others."""
    for tenant in ("a", "b", None):
        driver.enqueue(tenant=tenant, key="k")

    jobs = driver.find(tenant=asker)

    assert {job.tenant for job in jobs} == found
    assert len(jobs) == len(found)
