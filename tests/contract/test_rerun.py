"""Enqueue with RERUN: exactly one more run follows a running job."""

from __future__ import annotations

import json
from collections.abc import Callable
from uuid import UUID

import pytest

from ultimate_jobs.errors import JobDuplicate
from ultimate_jobs.states import LIVE, JobState
from ultimate_jobs.types import ANY_TENANT, Claim, EnqueueAnswer, EnqueueRequest, OnConflict

from .harness import MINUTE_MS, Harness

RERUN = OnConflict.RERUN


def _rerun(driver: Harness, *requests: EnqueueRequest) -> list[EnqueueAnswer]:
    return driver.ask(*requests, on_conflict=RERUN)


def _live(driver: Harness) -> list[UUID]:
    return [job.id for job in driver.find(states=LIVE)]


def _complete(driver: Harness, claim: Claim) -> None:
    driver.complete(claim)


def _bury(driver: Harness, claim: Claim) -> None:
    driver.bury(claim)


def _cancel(driver: Harness, claim: Claim) -> None:
    driver.cancel(claim.id)
    driver.complete(claim)


def _cancel_and_nack(driver: Harness, claim: Claim) -> None:
    driver.cancel(claim.id)
    driver.fail(claim)


def _cancel_and_lose(driver: Harness, claim: Claim) -> None:
    driver.cancel(claim.id)
    driver.lose(claim)


def _cancel_while_waiting(driver: Harness, claim: Claim) -> None:
    driver.fail(claim)
    driver.cancel(claim.id)


def _lose_to_the_cap(driver: Harness, claim: Claim) -> None:
    driver.lose_to_the_cap(claim)


ENDINGS = [
    pytest.param(_complete, JobState.COMPLETED, id="completed"),
    pytest.param(_bury, JobState.DEAD, id="dead"),
    pytest.param(_lose_to_the_cap, JobState.DEAD, id="rescued dead"),
    pytest.param(_cancel, JobState.CANCELLED, id="cancelled at ack"),
    pytest.param(_cancel_and_nack, JobState.CANCELLED, id="cancelled at nack"),
    pytest.param(_cancel_and_lose, JobState.CANCELLED, id="cancelled at rescue"),
    pytest.param(_cancel_while_waiting, JobState.CANCELLED, id="cancelled while waiting"),
]


def test_enqueue_rerun_of_a_running_job_answers_the_running_job(driver: Harness) -> None:
    """The caller is told that the job runs already, and nothing new is stored yet."""
    claim = driver.running(key="k", payload='{"n": 1}')

    [answer] = _rerun(driver, driver.request(key="k", payload='{"n": 2}'))

    assert (answer.id, answer.run_id) == (claim.id, claim.run_id)
    assert (answer.deduped, answer.state) == (True, JobState.RUNNING)
    assert answer.same_input is False
    assert [job.id for job in driver.find()] == [claim.id]
    assert driver.get(claim.id).rerun_requested is True


@pytest.mark.parametrize(("end", "state"), ENDINGS)
def test_enqueue_rerun_of_a_running_job_follows_once_however_it_ends(
    driver: Harness, end: Callable[[Harness, Claim], None], state: JobState
) -> None:
    """Whatever final state the run reaches, exactly one job with the request follows it."""
    claim = driver.running(key="k")
    request = driver.request(key="k", payload='{"n": 2}')
    _rerun(driver, request)

    end(driver, claim)

    assert driver.get(claim.id).state is state
    assert _live(driver) == [request.id]
    assert len(driver.find()) == 2
    follow_up = driver.claim_one()
    assert (follow_up.id, follow_up.run_id) == (request.id, request.run_id)
    driver.complete(follow_up)
    assert _live(driver) == []
    assert len(driver.find()) == 2


def test_enqueue_rerun_asked_twice_follows_with_the_last_request_only(driver: Harness) -> None:
    """The last request wins wholly: its ids, inputs, queue and options."""
    claim = driver.running(key="k", tenant="acme")
    first = driver.request(key="k", tenant="acme", priority=9, delay_ms=MINUTE_MS)
    last = driver.request(
        key="k",
        tenant="acme",
        queue=f"{driver.queue}-other",
        payload='{"n": 3}',
        priority=4,
        max_attempts=6,
        traceparent="00-trace",
        enqueued_by="user:3",
    )

    _rerun(driver, first)
    _rerun(driver, last)
    with driver.timed() as span:
        driver.complete(claim)

    assert driver.driver.introspection.get(first.id, tenant=ANY_TENANT) is None
    job = driver.get(last.id)
    assert (job.run_id, job.name, job.queue) == (last.run_id, driver.name, last.queue)
    assert (job.tenant, job.key) == ("acme", "k")
    assert json.loads(job.payload) == {"n": 3}
    assert (job.priority, job.max_attempts) == (4, 6)
    assert (job.traceparent, job.enqueued_by) == ("00-trace", "user:3")
    assert (job.state, job.attempt, job.token) == (JobState.READY, 0, 0)
    assert span.covers(job.created_at)
    assert span.covers(job.run_at)
    assert job.due_at == job.run_at


def test_enqueue_rerun_twice_in_one_list_follows_with_the_last_request(driver: Harness) -> None:
    """Two requests for one running job in one list are still one follow-up, the last."""
    claim = driver.running(key="k")
    requests = [driver.request(key="k"), driver.request(key="other"), driver.request(key="k")]

    answers = _rerun(driver, *requests)
    driver.complete(claim)

    assert [answer.id for answer in answers] == [claim.id, requests[1].id, claim.id]
    assert sorted(_live(driver)) == [requests[1].id, requests[2].id]


def test_enqueue_rerun_of_a_run_that_goes_back_follows_only_at_its_end(driver: Harness) -> None:
    """A failure, a shed, a park or a lost worker is no end: the follow-up waits with its run."""
    claim = driver.running(key="k")
    request = driver.request(key="k")
    _rerun(driver, request)

    for give_back in (driver.fail, driver.shed, driver.park, driver.lose):
        give_back(claim)
        assert _live(driver) == [claim.id]
        assert driver.get(claim.id).rerun_requested is True
        driver.advance(MINUTE_MS)
        claim = driver.claim_one()
    driver.complete(claim)

    assert _live(driver) == [request.id]


@pytest.mark.parametrize("state", [JobState.READY, JobState.DELAYED, JobState.SUSPENDED])
def test_enqueue_rerun_of_a_waiting_job_is_a_duplicate(driver: Harness, state: JobState) -> None:
    """A job that has not begun will see the change: nothing needs to follow it."""
    job_id = driver.job_in(state, key="k")

    [answer] = _rerun(driver, driver.request(key="k"))
    driver.advance(2 * MINUTE_MS)
    driver.complete(driver.claim_one())

    assert (answer.id, answer.deduped, answer.state) == (job_id, True, state)
    assert _live(driver) == []
    assert len(driver.find()) == 1


def test_enqueue_rerun_with_a_free_key_stores_the_job(driver: Harness) -> None:
    """Where nothing holds the key, RERUN is an enqueue like any other."""
    request = driver.request(key="k")

    [answer] = _rerun(driver, request)

    assert (answer.id, answer.deduped, answer.state) == (request.id, False, JobState.READY)


def test_enqueue_rerun_with_a_delay_counts_it_from_the_request(driver: Harness) -> None:
    """The follow-up starts when the request said, not later because its run took long."""
    claim = driver.running(key="k")
    request = driver.request(key="k", delay_ms=2 * MINUTE_MS)

    with driver.timed() as asked:
        _rerun(driver, request)
    driver.advance(MINUTE_MS)
    driver.complete(claim)

    job = driver.get(request.id)
    assert job.state is JobState.DELAYED
    assert asked.covers(job.run_at, plus_ms=2 * MINUTE_MS)
    assert job.due_at == job.run_at


def test_enqueue_rerun_whose_delay_has_passed_is_due_at_the_end_of_the_run(
    driver: Harness,
) -> None:
    """A follow-up is owed since it exists, and no earlier."""
    claim = driver.running(key="k")
    request = driver.request(key="k", delay_ms=MINUTE_MS)
    _rerun(driver, request)
    driver.advance(2 * MINUTE_MS)

    with driver.timed() as ended:
        driver.complete(claim)

    job = driver.get(request.id)
    assert job.state is JobState.READY
    assert ended.covers(job.due_at)
    assert ended.covers(job.run_at)


def test_enqueue_rerun_of_another_tenants_running_job_is_its_own_job(driver: Harness) -> None:
    """A rerun request reaches no other tenant's run."""
    driver.running(key="k", tenant="a")
    request = driver.request(key="k", tenant="b")

    [answer] = _rerun(driver, request)

    assert (answer.id, answer.deduped) == (request.id, False)


def test_retry_of_a_run_that_was_followed_names_the_follow_up(driver: Harness) -> None:
    """While the follow-up lives it holds the key, so the old run cannot come back beside it."""
    claim = driver.running(key="k")
    request = driver.request(key="k")
    _rerun(driver, request)
    driver.bury(claim)

    with pytest.raises(JobDuplicate) as refusal:
        driver.retry(claim.id)

    assert refusal.value.job_id == str(request.id)


def test_retry_of_a_run_that_was_followed_is_not_followed_again(driver: Harness) -> None:
    """One request is one follow-up, also where the old run is retried later."""
    claim = driver.running(key="k")
    _rerun(driver, driver.request(key="k"))
    driver.bury(claim)
    driver.complete(driver.claim_one())

    retried = driver.retry(claim.id)
    driver.complete(driver.claim_one())

    assert retried.rerun_requested is False
    assert _live(driver) == []
    assert len(driver.find()) == 2
