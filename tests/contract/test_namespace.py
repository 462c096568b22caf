"""The namespace of a key: (name, tenant, key), spelled alike wherever it is asked for."""

from __future__ import annotations

from itertools import permutations

import pytest

from ultimate_jobs.states import LIVE, JobState
from ultimate_jobs.types import OnConflict

from .harness import Harness

TENANTS = ("a", "b", None)


@pytest.mark.parametrize(
    "states", list(permutations((JobState.READY, JobState.RUNNING, JobState.DELAYED)))
)
def test_enqueue_of_a_key_that_every_tenant_holds_answers_each_with_its_own(
    driver: Harness, states: tuple[JobState, ...]
) -> None:
    """Nobody is handed another tenant's id, in whatever states the namesakes are."""
    # Running first: job_in() claims, and nothing else may be due then.
    order = sorted(zip(TENANTS, states, strict=True), key=lambda one: one[1] != JobState.RUNNING)
    held = {tenant: driver.job_in(state, tenant=tenant, key="k") for tenant, state in order}

    answers = {tenant: driver.enqueue(tenant=tenant, key="k") for tenant in TENANTS}

    assert {tenant: answer.id for tenant, answer in answers.items()} == held
    assert all(answer.deduped for answer in answers.values())


def test_enqueue_of_a_list_over_tenants_answers_each_with_its_own(driver: Harness) -> None:
    """A batch spells the namespace as a single enqueue does."""
    held = {tenant: driver.enqueue(tenant=tenant, key="k").id for tenant in TENANTS}

    answers = driver.ask(*(driver.request(tenant=tenant, key="k") for tenant in TENANTS))

    assert [answer.id for answer in answers] == [held[tenant] for tenant in TENANTS]


@pytest.mark.parametrize("state", [state for state in LIVE if state is not JobState.READY])
def test_enqueue_whose_key_only_another_tenant_holds_gets_a_job_of_its_own(
    driver: Harness, state: JobState
) -> None:
    """A key of tenant A is free for tenant B."""
    held = driver.job_in(state, tenant="a", key="k")

    answer = driver.enqueue(tenant="b", key="k")

    assert answer.deduped is False
    assert answer.id != held


def test_rerun_of_a_key_that_another_tenant_runs_asks_nothing_of_that_run(
    driver: Harness,
) -> None:
    """A rerun reaches the caller's own running job only."""
    other = driver.running(tenant="a", key="k")
    own = driver.running(tenant="b", key="k")

    answer = driver.enqueue(tenant="b", key="k", on_conflict=OnConflict.RERUN)

    assert answer.id == own.id
    assert driver.get(own.id).rerun_requested is True
    assert driver.get(other.id).rerun_requested is False
