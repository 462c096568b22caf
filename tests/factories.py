"""Stored rows of the package's own tables, valid unless a test says otherwise."""

from __future__ import annotations

import factory

from ultimate_jobs.ids import new_id
from ultimate_jobs.models import BackfillPass, Job, JobStep
from ultimate_jobs.states import BackfillStatus, JobState, StepStatus


class JobFactory(factory.django.DjangoModelFactory):
    """A ready job, each with a key of its own."""

    class Meta:
        model = Job

    id = factory.LazyFunction(new_id)
    run_id = factory.LazyFunction(new_id)
    name = "tests.stored"
    queue = "default"
    idempotency_key = factory.Sequence(lambda n: f"stored-{n}")
    payload = factory.LazyFunction(dict)
    state = JobState.READY.value
    max_attempts = 8


class StepFactory(factory.django.DjangoModelFactory):
    """A completed step of a run of its own."""

    class Meta:
        model = JobStep

    job_id = factory.LazyFunction(new_id)
    run_id = factory.LazyFunction(new_id)
    name = "render"
    position = 1
    status = StepStatus.COMPLETED.value


class BackfillPassFactory(factory.django.DjangoModelFactory):
    """A running pass, each of a backfill of its own."""

    class Meta:
        model = BackfillPass

    id = factory.LazyFunction(new_id)
    run_id = factory.LazyFunction(new_id)
    name = factory.Sequence(lambda n: f"backfill-{n}")
    status = BackfillStatus.RUNNING.value
    checksum = "0" * 64
