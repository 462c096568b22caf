"""Requests to enqueue, each with a key of its own unless the test names one."""

from __future__ import annotations

import factory

from ultimate_jobs.ids import new_id
from ultimate_jobs.types import EnqueueRequest


class EnqueueRequestFactory(factory.Factory):
    """A valid request; ids grow with each call, as those of real enqueues do."""

    class Meta:
        model = EnqueueRequest

    id = factory.LazyFunction(new_id)
    run_id = factory.LazyFunction(new_id)
    name = "contract.job"
    queue = "contract"
    tenant = None
    key = factory.Sequence(lambda n: f"key-{n}")
    payload = '{"n": 1}'
