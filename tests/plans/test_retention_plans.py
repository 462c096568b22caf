"""Plans of retention and of bounds: by the primary key and the partial indexes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction

from tests.plans.test_plans import FILL, Plans
from ultimate_jobs.conf import DAY_MS, RetentionOptions
from ultimate_jobs.ids import FIRST_ID, LAST_ID
from ultimate_jobs.types import EnqueueRequest

# The history ended when it was filled.
KEEP = RetentionOptions(completed_ms=1, cancelled_ms=None, dead_ms=None)
COUNTS = {
    "worker": UUID("00000000-0000-7000-8000-000000000001"),
    "finished": 30_000,
    "future": 5000,
    "ready": 20_000,
    "woken": 50,
}


@pytest.fixture(scope="module", params=["analyzed", "never analyzed", "analyzed while empty"])
def long_history(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any
) -> Iterator[None]:
    """Finished and waiting rows by the ten thousand, filled once and rolled back at the end."""
    with django_db_blocker.unblock(), transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("truncate x_jobs, x_job_leases, x_job_events, x_job_steps")
            if request.param == "analyzed while empty":
                cursor.execute("analyze x_jobs")
            for history in (True, False):
                cursor.execute(FILL, {**COUNTS, "history": history})
            cursor.execute(
                "insert into x_job_events (job_id, run_id, type, at)"
                " select id, run_id, 'failed', x_now() - interval '2 days' from x_jobs"
                " where state = 'completed'"
            )
            cursor.execute(
                "insert into x_job_steps (job_id, run_id, name, position, status)"
                " select id, run_id, 'render', 1, 'completed' from x_jobs"
                " where state = 'completed'"
            )
            if request.param == "analyzed":
                cursor.execute("analyze x_jobs, x_job_events, x_job_steps")
        yield
        transaction.set_rollback(True)


pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("long_history")]


@pytest.mark.parametrize("after", [FIRST_ID, UUID(int=2**127), UUID(int=2**128 - 2**120)], ids=str)
def test_prune_walks_the_primary_key(after: UUID) -> None:
    """A batch costs by its own rows, wherever it stands and whatever the planner knows."""
    plans = Plans(
        lambda driver: driver.retention.prune(KEEP, after=after, through=LAST_ID, limit=100)
    )

    assert 0 < plans.answer.completed <= 100
    assert (plans.answer.events, plans.answer.steps) == (plans.answer.completed,) * 2
    assert {"x_jobs", "x_job_events", "x_job_steps"}.isdisjoint(plans.scanned_whole)
    assert "x_jobs_pkey" in plans.indexes
    assert plans.discarded < 1000
    assert plans.pages < 6000


def test_survey_walks_the_primary_key() -> None:
    """Looking costs no more than removing."""
    plans = Plans(
        lambda driver: driver.retention.survey(KEEP, after=FIRST_ID, through=LAST_ID, limit=100)
    )

    assert plans.answer.completed > 0
    assert {"x_jobs", "x_job_events", "x_job_steps"}.isdisjoint(plans.scanned_whole)
    assert plans.pages < 3000


def test_prune_of_what_is_kept_reads_one_batch() -> None:
    """Where nothing may go a batch is a walk over its rows, and no more."""
    keep = RetentionOptions(completed_ms=9 * DAY_MS, cancelled_ms=None, dead_ms=None)

    plans = Plans(
        lambda driver: driver.retention.prune(keep, after=FIRST_ID, through=LAST_ID, limit=1000)
    )

    assert plans.answer.last is not None
    assert plans.scanned_whole == set()
    assert plans.pages < 2500


@pytest.mark.parametrize("cap", [1, 10, 5000])
def test_depth_is_counted_by_index_up_to_the_cap(cap: int) -> None:
    """Neither history, nor what is scheduled for later, nor what is beyond the bound is read."""
    plans = Plans(lambda driver: driver.queues.depth("q0", cap=cap))

    assert plans.answer == cap
    assert "x_jobs" not in plans.scanned_whole
    assert plans.indexes <= {"x_jobs_ready_idx", "x_jobs_waiting_idx"}
    assert plans.pages < 100 + 2 * cap


def test_held_keys_are_found_by_their_own_index() -> None:
    """One descent a key."""
    asked = [
        EnqueueRequest(
            id=UUID(int=n),
            run_id=UUID(int=n),
            name=f"plan.{n % 20}",
            queue="q0",
            tenant=f"t{n % 50}" if n % 2 == 0 else None,
            key=f"ready{n}",
            payload="{}",
        )
        for n in range(1, 101)
    ]

    plans = Plans(lambda driver: driver.queues.held(asked))

    assert plans.answer == [True] * 100
    assert plans.scanned_whole == set()
    assert plans.pages < 2000
