"""What retention looks at, and in what order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test import override_settings

from tests.contract.harness import Harness, MemoryHarness
from tests.factories import JobFactory, StepFactory
from ultimate_jobs.conf import DAY_MS, RetentionOptions
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.ids import FIRST_ID, LAST_ID, first_id_at
from ultimate_jobs.models import Job, JobEvent, JobStep
from ultimate_jobs.records import Pruned
from ultimate_jobs.services.retention import (
    FIRST_LOOK,
    SLACK,
    Frontier,
    Stretch,
    everything,
    pause_after,
    prune,
)
from ultimate_jobs.states import JobState

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
KEEP = RetentionOptions(completed_ms=14 * DAY_MS, cancelled_ms=14 * DAY_MS, dead_ms=90 * DAY_MS)
FOR_EVER = RetentionOptions(completed_ms=None, cancelled_ms=None, dead_ms=None)


def pruned(**options: Any) -> Pruned:
    return prune(PostgresDriver("default"), dry_run=False, sleep=lambda _: None, **options)


def ended(days_ago: float, **fields: Any) -> Job:
    moment = datetime.now(UTC) - timedelta(days=days_ago)
    values = {"state": "completed", "finished_at": moment, "id": first_id_at(moment)}
    job: Job = JobFactory(**{**values, **fields})
    return job


# --- the frontier ------------------------------------------------------------------------------


def test_frontier_begins_a_day_back_and_goes_to_the_edge_of_each_period() -> None:
    """States that are kept equally long are one walk, in which others are kept for ever."""
    first, second = Frontier().advance(KEEP, NOW)

    assert first.keep == RetentionOptions(14 * DAY_MS, 14 * DAY_MS, None)
    assert first.after == first_id_at(NOW - 14 * DAY - SLACK - FIRST_LOOK)
    assert first.through == first_id_at(NOW - 14 * DAY - SLACK)
    assert second.keep == RetentionOptions(None, None, 90 * DAY_MS)
    assert second.through == first_id_at(NOW - 90 * DAY - SLACK)


def test_frontier_never_returns_to_what_it_passed() -> None:
    """The next stretch begins where the last one ended, and none is empty."""
    frontier = Frontier()
    [first, _] = frontier.advance(KEEP, NOW)

    at_once = frontier.advance(KEEP, NOW)
    [later, _] = frontier.advance(KEEP, NOW + timedelta(minutes=5))

    assert at_once == []
    assert later.after == first.through
    assert later.through == first_id_at(NOW + timedelta(minutes=5) - 14 * DAY - SLACK)


def test_frontier_of_a_changed_period_begins_anew() -> None:
    """A setting that was changed has a cursor of its own."""
    frontier = Frontier()
    frontier.advance(KEEP, NOW)

    [changed] = frontier.advance(RetentionOptions(2 * DAY_MS, None, None), NOW)

    assert changed.after == first_id_at(NOW - 2 * DAY - SLACK - FIRST_LOOK)


def test_nothing_is_looked_at_where_everything_is_kept() -> None:
    """Three Nones switch retention off."""
    assert Frontier().advance(FOR_EVER, NOW) == []
    assert everything(FOR_EVER, NOW) == []


def test_everything_is_all_ids_but_those_that_tell_of_a_time_too_young() -> None:
    """Young rows are never read; ids that tell no time stand beyond them, and before."""
    old, foreign = everything(KEEP, NOW)

    assert (old.after, old.through) == (FIRST_ID, first_id_at(NOW - 14 * DAY))
    assert (foreign.after, foreign.through) == (first_id_at(NOW + DAY), LAST_ID)
    assert old.keep == foreign.keep == KEEP


def test_pause_is_longer_than_the_batch_and_bounded() -> None:
    """A busy server is given more room; a quick one is not waited for long."""
    assert [pause_after(one) for one in (0.0, 0.1, 10.0)] == [0.01, 0.2, 1.0]


# --- a whole walk ------------------------------------------------------------------------------


def test_prune_walks_batch_by_batch_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a whole batch has nothing to remove; it pauses after each."""
    monkeypatch.setattr("ultimate_jobs.services.retention.BATCH", 2)
    harness: Harness = MemoryHarness()
    kept = [harness.job_in(JobState.DEAD) for _ in range(4)]
    for _ in range(3):
        harness.job_in(JobState.COMPLETED)
    harness.advance(30 * DAY_MS)
    # Ids are made from this machine's clock, which stands beside that of the harness.
    monkeypatch.setattr(
        "ultimate_jobs.services.retention.everything",
        lambda keep, now: [Stretch(keep, FIRST_ID, LAST_ID)],
    )
    pauses: list[float] = []

    removed = prune(harness.driver, dry_run=False, sleep=pauses.append)

    assert removed.completed == 3
    assert len(pauses) == 4
    assert {one.id for one in harness.find()} == set(kept)


@pytest.mark.django_db
def test_prune_follows_the_setting() -> None:
    """Each state has its period, and None is for ever."""
    for days in (0.5, 2, 5):
        for state in ("completed", "cancelled", "dead"):
            ended(days, state=state, id=uuid4())
    keep = {"completed": DAY, "cancelled": None, "dead": timedelta(days=3)}

    with override_settings(ULTIMATE_JOBS={"RETENTION": keep}):
        told = prune(PostgresDriver("default"), dry_run=True, sleep=lambda _: None)
        count = Job.objects.count()
        removed = pruned()

    assert (removed.completed, removed.cancelled, removed.dead) == (2, 0, 1)
    assert (told, count) == (removed, 9)
    assert sorted(Job.objects.values_list("state", flat=True)) == sorted(
        ["completed", *["cancelled"] * 3, *["dead"] * 2]
    )


@pytest.mark.django_db
@pytest.mark.parametrize(
    "job_id",
    [UUID(int=5), UUID("11111111-2222-4333-8444-555555555555"), UUID(int=2**128 - 1)],
    ids=["before any time", "random", "the last of all"],
)
def test_prune_finds_rows_of_the_earlier_release(job_id: UUID) -> None:
    """Their ids tell no time, and when they ended stands in updated_at alone."""
    old = ended(20, id=job_id, finished_at=None)
    Job.objects.filter(id=old.id).update(updated_at=datetime.now(UTC) - timedelta(days=20))
    young = ended(20, id=uuid4(), finished_at=None)
    Job.objects.filter(id=young.id).update(updated_at=datetime.now(UTC) - timedelta(days=2))

    assert pruned().completed == 1
    assert list(Job.objects.values_list("id", flat=True)) == [young.id]


@pytest.mark.django_db
def test_prune_removes_the_steps_of_every_run_that_the_history_names() -> None:
    """Also of a run that a fresh retry has replaced; those of other runs stay."""
    old, other = ended(20), ended(1)
    before = uuid4()
    with connection.cursor() as cursor:
        cursor.execute(
            "insert into x_job_events (job_id, run_id, type, at)"
            " values (%s, %s, 'dead', x_now() - interval '21 days')",
            [old.id, before],
        )
    for run_id in (old.run_id, old.run_id, before, other.run_id):
        StepFactory(job_id=old.id, run_id=run_id, nth=JobStep.objects.count() + 1)

    removed = pruned()

    assert (removed.completed, removed.events, removed.steps) == (1, 1, 3)
    assert [one.run_id for one in JobStep.objects.all()] == [other.run_id]
    assert JobEvent.objects.count() == 0
