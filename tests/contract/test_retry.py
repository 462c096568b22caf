"""Retry: an operator brings a finished job back."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from ultimate_jobs.errors import JobDuplicate, JobNotFound, JobStateRefused
from ultimate_jobs.ids import new_id
from ultimate_jobs.states import FINAL, LIVE, JobState

from .harness import MINUTE_MS, Harness


@pytest.mark.parametrize("state", [JobState.DEAD, JobState.CANCELLED])
def test_retry_of_a_finished_job_makes_it_ready(driver: Harness, state: JobState) -> None:
    """The run comes back under its own id, run and key, with its counters at their beginning."""
    job_id = driver.job_in(state, key="k", tenant="acme", payload='{"n": 5}')
    before = driver.get(job_id)
    driver.advance(MINUTE_MS)

    with driver.timed() as span:
        record = driver.retry(job_id)

    assert record == driver.get(job_id)
    assert (record.id, record.run_id) == (before.id, before.run_id)
    assert (record.key, record.tenant, record.payload) == ("k", "acme", before.payload)
    assert (record.state, record.retry_count) == (JobState.READY, 1)
    assert (record.attempt, record.lost_leases) == (0, 0)
    assert (record.worker, record.claimed_at) == (None, None)
    assert (record.finished_at, record.cancel_requested_at) == (None, None)
    assert record.token == before.token == 1
    assert span.covers(record.run_at)
    assert record.due_at == record.run_at


def test_retry_of_a_job_lost_to_the_cap_gives_it_every_chance_again(driver: Harness) -> None:
    """Lost leases are counted from 0 again, so that one more loss does not end the job."""
    claim = driver.running()
    driver.lose_to_the_cap(claim)

    driver.retry(claim.id)
    rescue = driver.lose(driver.claim_one())

    assert (rescue.state, rescue.lost_leases) == (JobState.READY, 1)


def test_retry_of_a_retried_job_counts_up(driver: Harness) -> None:
    """Each retry is counted, and the token goes on from where it was."""
    job_id = driver.job_in(JobState.DEAD)

    counts, tokens = [], []
    for _ in range(3):
        counts.append(driver.retry(job_id).retry_count)
        claim = driver.claim_one()
        tokens.append(claim.token)
        assert claim.retry_count == counts[-1]
        driver.bury(claim)

    assert counts == [1, 2, 3]
    assert tokens == [2, 3, 4]


def test_retry_of_a_cancelled_job_lets_it_complete(driver: Harness) -> None:
    """The old request to stop is gone with the run it was meant for."""
    job_id = driver.job_in(JobState.CANCELLED)
    driver.retry(job_id)

    answer = driver.complete(driver.claim_one(), '"done"')

    job = driver.get(job_id)
    assert answer.state is JobState.COMPLETED
    assert (job.state, job.result) == (JobState.COMPLETED, '"done"')


def test_retry_of_a_job_holds_its_key_again(driver: Harness) -> None:
    """A job that came back is live: a second enqueue of its key meets it."""
    job_id = driver.job_in(JobState.DEAD, key="k")
    driver.retry(job_id)

    answer = driver.enqueue(key="k")

    assert (answer.id, answer.deduped) == (job_id, True)


@pytest.mark.parametrize("state", FINAL)
def test_retry_fresh_gives_the_job_a_new_run(driver: Harness, state: JobState) -> None:
    """A fresh retry keeps the id, takes the new run, and leaves no result of the old one."""
    job_id = driver.job_in(state, key="k")
    before = driver.get(job_id)
    fresh = new_id()

    record = driver.retry(job_id, fresh_run_id=fresh)

    assert (record.id, record.run_id, record.key) == (job_id, fresh, "k")
    assert record.run_id != before.run_id
    assert (record.state, record.result) == (JobState.READY, None)
    assert (record.retry_count, record.token) == (1, before.token)
    assert driver.claim_one().run_id == fresh


@pytest.mark.parametrize("state", [*LIVE, JobState.COMPLETED])
def test_retry_of_a_job_in_another_state_is_refused(driver: Harness, state: JobState) -> None:
    """Only dead and cancelled jobs are retried; the refusal says which and what it met."""
    job_id = driver.job_in(state)
    before, events = driver.get(job_id), driver.events(job_id)

    with pytest.raises(JobStateRefused) as refusal:
        driver.retry(job_id)

    assert refusal.value.code == "X_JOB_STATE_REFUSED"
    assert f"is {state}" in refusal.value.cause
    assert "dead or cancelled" in refusal.value.cause
    assert driver.get(job_id) == before
    assert driver.events(job_id) == events


@pytest.mark.parametrize("state", LIVE)
def test_retry_fresh_of_a_live_job_is_refused(driver: Harness, state: JobState) -> None:
    """A fresh run is no way round a run that is not over."""
    job_id = driver.job_in(state)
    before = driver.get(job_id)

    with pytest.raises(JobStateRefused) as refusal:
        driver.retry(job_id, fresh_run_id=new_id())

    assert "completed" in refusal.value.cause
    assert driver.get(job_id) == before


def test_retry_of_an_unknown_id_is_refused(driver: Harness) -> None:
    """An id that does not exist has its own code."""
    unknown = uuid4()

    with pytest.raises(JobNotFound) as refusal:
        driver.retry(unknown)

    assert refusal.value.code == "X_JOB_NOT_FOUND"
    assert str(unknown) in refusal.value.cause


@pytest.mark.parametrize("state", LIVE)
def test_retry_while_another_job_holds_the_key_names_it(driver: Harness, state: JobState) -> None:
    """Two live jobs of one key never are: the retry is refused, and nothing has changed."""
    old_id = driver.job_in(JobState.DEAD, key="k")
    holder_id = driver.job_in(state, key="k")
    before, events = driver.get(old_id), driver.events(old_id)

    with pytest.raises(JobDuplicate) as refusal:
        driver.retry(old_id)

    assert refusal.value.code == "X_JOB_DUPLICATE"
    assert refusal.value.job_id == str(holder_id)
    assert driver.get(old_id) == before
    assert driver.events(old_id) == events
    assert driver.get(holder_id).state is state


def test_retry_refused_for_a_key_leaves_rescue_its_way(driver: Harness) -> None:
    """One job that cannot come back stops no other from being taken from a dead worker."""
    old_id = driver.job_in(JobState.DEAD, key="k")
    lost = driver.running(key="other")
    driver.job_in(JobState.DELAYED, key="k")
    with pytest.raises(JobDuplicate):
        driver.retry(old_id)

    rescue = driver.lose(lost)

    assert rescue.state is JobState.READY


def test_retry_while_another_tenants_job_holds_the_key_is_free(driver: Harness) -> None:
    """Another tenant's job of the same name and key stands in nobody's way."""
    old_id = driver.job_in(JobState.DEAD, key="k", tenant="a")
    driver.enqueue(key="k", tenant="b")

    record = driver.retry(old_id)

    assert record.state is JobState.READY


def test_retry_keeps_what_the_job_is(driver: Harness) -> None:
    """Name, queue, inputs, options and last error are the job's, not the run's."""
    request = driver.request(
        payload='{"n": 5}', priority=4, max_attempts=6, traceparent="00-t", enqueued_by="user:1"
    )
    driver.ask(request)
    driver.bury(driver.claim_one())

    record = driver.retry(request.id)

    assert (record.name, record.queue) == (driver.name, driver.queue)
    assert json.loads(record.payload) == {"n": 5}
    assert (record.priority, record.max_attempts) == (4, 6)
    assert (record.traceparent, record.enqueued_by) == ("00-t", "user:1")
    assert record.last_error == "ValueError: boom"
