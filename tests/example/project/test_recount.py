"""The counting SQL finds what is lost and what is doubled, and nothing else."""

from __future__ import annotations

from uuid import uuid4

import pytest

from example_project.places.demo.enqueue import enqueue_plan
from example_project.places.demo.options import Options
from example_project.places.demo.plan import make_plan
from example_project.places.demo.recount import count_doubled, count_lost, count_states
from example_project.places.demo.tenants import forget_earlier_runs, make_tenants
from example_project.places.models import Effect, Kind, Request, Tenant
from ultimate_jobs import ANY_TENANT, get
from ultimate_jobs.states import JobState

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenants() -> list[str]:
    """Two tenants with three jobs each, all of which had their effect but the poison."""
    slugs = make_tenants("abc123", 2)
    for slug in slugs:
        for kind in (Kind.INDEX, Kind.INDEX, Kind.BOUNDARY):
            request = Request.objects.create(
                job_id=uuid4(), tenant_id=slug, kind=kind, subject="AD-07"
            )
            if kind is Kind.INDEX:
                leave_effect(request)
    return slugs


def leave_effect(request: Request) -> Effect:
    return Effect.objects.create(
        job_id=request.job_id,
        tenant_id=request.tenant_id,
        kind=request.kind,
        subject=request.subject,
        attempt=1,
    )


def test_count_of_a_good_run_is_zero(tenants):
    """Poison has no effect, and that is no loss."""
    assert count_lost(tenants) == 0
    assert count_doubled(tenants) == 0


def test_count_lost_finds_a_missing_effect(tenants):
    """An accepted job whose effect is gone is lost."""
    Effect.objects.filter(tenant_id=tenants[0]).first().delete()

    assert count_lost(tenants) == 1
    assert count_lost(tenants[1:]) == 0


def test_count_doubled_finds_a_second_effect(tenants):
    """An accepted job with two effects is doubled, once, however many there are."""
    request = Request.objects.filter(tenant_id=tenants[0], kind=Kind.INDEX).first()
    leave_effect(request)
    leave_effect(request)

    assert count_doubled(tenants) == 1
    assert count_doubled(tenants[1:]) == 0


def test_enqueue_plan_accounts_for_every_answer(places):
    """Duplicates are deduped onto waiting jobs, and each accepted job has its request."""
    tenants = make_tenants("abc123", 2)
    plans = make_plan(tenants, places, Options(duplicates=9, poison=3))

    answers = enqueue_plan(plans, tell=lambda _: None)

    assert answers.deduped == 9
    assert answers.enqueued == Request.objects.count() == 2 * (30 + 1) + 3
    states = count_states(tenants)
    assert (states.accepted, states.live, states.done) == (answers.enqueued, answers.enqueued, 0)
    assert count_lost(tenants) == 2 * (30 + 1)


def test_forget_earlier_runs_touches_only_what_a_run_made(places):
    """What an interrupted run left waiting is cancelled; a user's own tenant keeps its work."""
    Tenant.objects.create(slug="mine", language="uk")
    plans = make_plan(["mine"], places, Options(duplicates=0, poison=0))
    enqueue_plan(plans, tell=lambda _: None)
    earlier = make_tenants("abc123", 1)
    enqueue_plan(make_plan(earlier, places, Options(duplicates=0)), tell=lambda _: None)
    left = Request.objects.filter(tenant_id=earlier[0]).first().job_id

    assert forget_earlier_runs() == 1

    assert list(Tenant.objects.values_list("slug", flat=True)) == ["mine"]
    assert get(left, tenant=ANY_TENANT).state is JobState.CANCELLED
    states = count_states(["mine"])
    assert states.live == states.accepted == 31
