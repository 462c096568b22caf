"""0, and the text "0", are values like any other, wherever they can be given."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ultimate_jobs import Retry, get, job
from ultimate_jobs.errors import JobOptionInvalid
from ultimate_jobs.services.handles import RunHandle

pytestmark = pytest.mark.django_db


@pytest.fixture
def declared(own_registry: None) -> Any:
    """A job whose every default differs from 0."""

    @job(key="{n}", name="tests.zero", priority=5, retry=Retry(attempts=3, delay=15))
    def count(ctx: Any, n: int) -> None: ...

    return count


def test_enqueue_using_zero_for_every_option_replaces_every_default(declared: Any) -> None:
    """None is taken for "not given"."""
    handle: RunHandle = declared.using(
        priority=0, run_after=timedelta(0), tenant="0", queue="0"
    ).enqueue(n=0)

    stored = get(handle.id, tenant="0")

    assert (stored.priority, stored.tenant, stored.queue, stored.key) == (0, "0", "0", "0")
    assert stored.state.value == "ready"


def test_key_of_text_zero_dedupes_like_any_other(declared: Any) -> None:
    """It is a key, not a missing one."""
    first = declared.enqueue(n=0)

    assert declared.enqueue(n=0).id == first.id
    assert declared.enqueue(n=1).deduped is False


def test_retry_of_zero_attempts_is_refused_and_not_replaced(own_registry: None) -> None:
    """A job that may never run is a mistake; "no retries" is one attempt."""
    with pytest.raises(JobOptionInvalid):
        Retry(attempts=0)
    assert Retry(attempts=1).attempts == 1
