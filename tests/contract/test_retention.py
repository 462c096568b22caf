"""Retention: what ended long ago goes with its history, and nothing else does."""

from __future__ import annotations

from uuid import UUID

import pytest

from ultimate_jobs.conf import DAY_MS, RetentionOptions
from ultimate_jobs.ids import FIRST_ID, LAST_ID
from ultimate_jobs.records import Pruned
from ultimate_jobs.states import FINAL, LIVE, JobState
from ultimate_jobs.types import ANY_TENANT

from .harness import Harness

WEEK = RetentionOptions(completed_ms=7 * DAY_MS, cancelled_ms=7 * DAY_MS, dead_ms=7 * DAY_MS)
ENDED = sorted(FINAL)


def prune(
    driver: Harness,
    keep: RetentionOptions = WEEK,
    *,
    after: UUID = FIRST_ID,
    through: UUID = LAST_ID,
    limit: int = 1000,
) -> Pruned:
    return driver.driver.retention.prune(keep, after=after, through=through, limit=limit)


def is_there(driver: Harness, job_id: UUID) -> bool:
    return driver.driver.introspection.get(job_id, tenant=ANY_TENANT) is not None


@pytest.mark.parametrize("state", ENDED)
def test_prune_removes_what_ended_before_its_period(driver: Harness, state: JobState) -> None:
    """With its events; it is counted under its state."""
    job_id = driver.job_in(state)
    events = len(driver.events(job_id))
    driver.advance(7 * DAY_MS + 1000)

    removed = prune(driver)

    assert removed == Pruned(**{state.value: 1}, events=events)
    assert not is_there(driver, job_id)
    assert driver.events(job_id) == []


@pytest.mark.parametrize("state", ENDED)
def test_prune_leaves_what_ended_within_its_period(driver: Harness, state: JobState) -> None:
    """To the second, and its history with it."""
    job_id = driver.job_in(state)
    events = driver.events(job_id)
    driver.advance(7 * DAY_MS - 60_000)

    assert prune(driver) == Pruned()
    assert is_there(driver, job_id)
    assert driver.events(job_id) == events


@pytest.mark.parametrize("state", ENDED)
def test_prune_leaves_what_is_kept_for_ever(driver: Harness, state: JobState) -> None:
    """None is no period, and says nothing of the other states."""
    job_id = driver.job_in(state)
    driver.advance(9000 * DAY_MS)
    keep = RetentionOptions(
        **{
            f"{one.value}_ms": None if one is state else DAY_MS
            for one in (JobState.COMPLETED, JobState.CANCELLED, JobState.DEAD)
        }
    )

    assert prune(driver, keep) == Pruned()
    assert is_there(driver, job_id)


@pytest.mark.parametrize("state", [one for one in LIVE if one is not JobState.RUNNING])
def test_prune_never_removes_a_live_job(driver: Harness, state: JobState) -> None:
    """However long ago it was enqueued."""
    job_id = driver.job_in(state)
    driver.advance(9000 * DAY_MS)

    assert prune(driver) == Pruned()
    assert is_there(driver, job_id)


def test_prune_never_removes_a_running_job(driver: Harness) -> None:
    """Nor one whose worker is long gone: that is the rescue's."""
    claim = driver.running()
    driver.advance(9000 * DAY_MS)

    assert prune(driver) == Pruned()
    assert is_there(driver, claim.id)


@pytest.mark.parametrize("state", [JobState.DEAD, JobState.CANCELLED])
def test_prune_leaves_an_old_job_that_was_retried(driver: Harness, state: JobState) -> None:
    """It is live again; when it ends anew, its period begins anew."""
    job_id = driver.job_in(state)
    driver.advance(30 * DAY_MS)
    driver.retry(job_id)

    while_live = prune(driver)
    driver.complete(driver.claim_one())

    assert (while_live, prune(driver)) == (Pruned(), Pruned())
    assert is_there(driver, job_id)


def test_prune_leaves_a_job_whose_last_event_is_younger_than_a_day(driver: Harness) -> None:
    """The database refuses to delete such an event; the job waits for it, and holds up no other."""
    keep = RetentionOptions(completed_ms=1, cancelled_ms=1, dead_ms=1)
    old = driver.job_in(JobState.DEAD)
    driver.advance(DAY_MS)
    young = driver.job_in(JobState.DEAD)
    driver.advance(1000)

    assert prune(driver, keep).dead == 1
    assert (is_there(driver, old), is_there(driver, young)) == (False, True)


def test_prune_in_batches_goes_on_where_it_was(driver: Harness) -> None:
    """Each batch looks at so many rows, kept ones too, and the last says that it is the last."""
    ids = [driver.job_in(JobState.COMPLETED if n % 2 else JobState.DEAD) for n in range(6)]
    driver.advance(7 * DAY_MS + 1000)
    keep = RetentionOptions(completed_ms=7 * DAY_MS, cancelled_ms=None, dead_ms=None)

    batches: list[Pruned] = []
    after: UUID | None = FIRST_ID
    while after is not None:
        batches.append(prune(driver, keep, after=after, limit=2))
        after = batches[-1].last

    assert [one.completed for one in batches] == [1, 1, 1, 0]
    assert [one.last for one in batches] == [ids[1], ids[3], ids[5], None]
    assert [is_there(driver, one) for one in ids] == [n % 2 == 0 for n in range(6)]


def test_prune_of_a_stretch_touches_no_id_outside_of_it(driver: Harness) -> None:
    """After the first and with the last, as a cursor needs it."""
    ids = sorted(driver.job_in(JobState.COMPLETED) for _ in range(4))
    driver.advance(7 * DAY_MS + 1000)

    removed = prune(driver, after=ids[0], through=ids[2])

    assert (removed.completed, removed.last) == (2, None)
    assert [is_there(driver, one) for one in ids] == [True, False, False, True]


def test_survey_tells_what_prune_removes_and_removes_nothing(driver: Harness) -> None:
    """An operator may look before."""
    for state in ENDED:
        driver.job_in(state)
    driver.advance(7 * DAY_MS + 1000)
    driver.job_in(JobState.COMPLETED)

    told = driver.driver.retention.survey(WEEK, after=FIRST_ID, through=LAST_ID, limit=1000)

    assert (told.completed, told.cancelled, told.dead) == (1, 1, 1)
    assert told == prune(driver)


def test_key_of_a_job_that_was_removed_is_as_free_as_before(driver: Harness) -> None:
    """Nothing of it is remembered."""
    driver.complete(driver.running(key="k"))
    driver.advance(7 * DAY_MS + 1000)
    prune(driver)

    assert driver.enqueue(key="k").deduped is False
