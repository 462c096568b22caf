"""A wake-up says which queue has work, whatever the work is."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from django.db import transaction
from django.test import override_settings

from tests.conftest import url_of
from ultimate_jobs import get, job
from ultimate_jobs.identity import MAX_BYTES

pytestmark = pytest.mark.django_db(transaction=True)

# More than the server lets one notification carry.
LARGE = 20_000_000


@override_settings(ULTIMATE_JOBS={"MAX_PAYLOAD_BYTES": LARGE + 1000})
@pytest.mark.parametrize("size", [7_000, 9_000, LARGE])
def test_wakeup_of_a_large_job_in_the_longest_queue_carries_the_queue_alone(
    size: int, own_registry: None
) -> None:
    """The commit does not fail for what a notification cannot hold."""
    queue = "q" * MAX_BYTES["queue"]

    @job(key="k", name="tests.large")
    def large(ctx: Any, text: str) -> None: ...

    with psycopg.connect(url_of("default"), autocommit=True) as ear:
        ear.execute("listen x_jobs")
        with transaction.atomic():
            handle = large.using(queue=queue).enqueue(text="x" * size)
        words = [one.payload for one in ear.notifies(timeout=20, stop_after=1)]

    assert words == [queue]
    assert len(get(handle.id, tenant=None).payload) >= size
