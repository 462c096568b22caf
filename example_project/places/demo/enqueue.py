"""Enqueues a plan, and keeps the app's own account of what was accepted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db import transaction

from example_project.places.demo.plan import Inputs, TenantPlan
from example_project.places.jobs import find_address, import_boundary, index_subdivision
from example_project.places.models import Kind, Request
from ultimate_jobs import Job

CHUNK = 1000


@dataclass
class Answers:
    """How the queue answered: each enqueue was accepted, or deduped onto a live job."""

    asked: int = 0
    enqueued: int = 0
    deduped: int = 0


def enqueue_plan(plans: Sequence[TenantPlan], *, tell: Callable[[Answers], None]) -> Answers:
    """Enqueue everything; the duplicates of a tenant come while their first is still waiting."""
    answers = Answers()
    for plan in plans:
        for job, kind, inputs in (
            (index_subdivision, Kind.INDEX, plan.index),
            (find_address, Kind.ADDRESS, plan.addresses),
            (import_boundary, Kind.BOUNDARY, plan.boundaries),
            (index_subdivision, Kind.INDEX, plan.duplicates),
        ):
            _enqueue(job, kind, plan.tenant, inputs, answers)
            tell(answers)
    return answers


def _enqueue(job: Job, kind: Kind, tenant: str, inputs: Inputs, answers: Answers) -> None:
    # The request and its job commit together, or neither does.
    with transaction.atomic():
        handles = job.using(tenant=tenant).enqueue_many(inputs)
        accepted = [
            Request(job_id=handle.id, tenant_id=tenant, kind=kind, subject=given["code"])
            for handle, given in zip(handles, inputs, strict=True)
            if not handle.deduped
        ]
        Request.objects.bulk_create(accepted, batch_size=CHUNK)
    answers.asked += len(handles)
    answers.enqueued += len(accepted)
    answers.deduped += len(handles) - len(accepted)
