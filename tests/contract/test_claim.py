"""Claim: what is due, in which order, and what is left untouched."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from ultimate_jobs.states import FINAL, JobState
from ultimate_jobs.types import ClaimRequest

from .harness import MINUTE_MS, Harness


def test_claim_of_a_ready_job_makes_it_the_workers(driver: Harness) -> None:
    """A claim stores who runs the job, under which token, since when, and counts the attempt."""
    job_id = driver.enqueue().id
    worker = driver.start_worker()

    with driver.timed() as span:
        [claim] = driver.claim(worker)

    job = driver.get(job_id)
    assert (claim.id, claim.worker, claim.token, claim.attempt) == (job_id, worker, 1, 1)
    assert (job.state, job.worker) == (JobState.RUNNING, worker)
    assert (job.token, job.attempt) == (1, 1)
    assert span.covers(job.claimed_at)
    assert span.covers(job.updated_at)


def test_claim_of_a_job_carries_what_its_body_needs(driver: Harness) -> None:
    """A claim holds the inputs, the options and the counters of the stored job."""
    request = driver.request(
        tenant="acme", payload='{"a": ["ü", 1]}', priority=3, max_attempts=4, traceparent="00-t"
    )
    driver.ask(request)

    claim = driver.claim_one()

    job = driver.get(request.id)
    assert (claim.run_id, claim.name, claim.queue) == (request.run_id, driver.name, driver.queue)
    assert (claim.tenant, claim.key, claim.traceparent) == ("acme", request.key, "00-t")
    assert json.loads(claim.payload) == {"a": ["ü", 1]}
    assert (claim.priority, claim.max_attempts) == (3, 4)
    assert (claim.lost_leases, claim.retry_count) == (0, 0)
    assert claim.due_at == job.due_at


def test_claim_with_more_due_than_its_limit_takes_its_limit(driver: Harness) -> None:
    """A claim never takes more than it was asked to, and the rest is there for the next."""
    driver.ask(*(driver.request() for _ in range(7)))

    claims = [driver.claim(limit=3) for _ in range(4)]

    assert [len(claimed) for claimed in claims] == [3, 3, 1, 0]
    assert len({claim.id for claimed in claims for claim in claimed}) == 7


def test_claim_takes_the_higher_priority_first(driver: Harness) -> None:
    """Priority beats age."""
    ids = {}
    for priority in (0, -100, 100, 7):
        ids[priority] = driver.enqueue(priority=priority).id
        driver.advance(1000)

    claims = driver.claim()

    assert [claim.id for claim in claims] == [ids[100], ids[7], ids[0], ids[-100]]


def test_claim_within_one_priority_takes_the_longest_owed_first(driver: Harness) -> None:
    """Within a priority the oldest due time comes first, not the oldest id."""
    late = driver.enqueue(delay_ms=3000)
    early = driver.enqueue(delay_ms=1000)
    middle = driver.enqueue(delay_ms=2000)
    driver.advance(MINUTE_MS)

    claims = driver.claim()

    assert [claim.id for claim in claims] == [early.id, middle.id, late.id]


def test_claim_within_one_due_time_takes_the_smaller_id_first(driver: Harness) -> None:
    """Jobs that came in one call are taken in the order of their ids."""
    requests = [driver.request() for _ in range(5)]
    driver.ask(*reversed(requests))

    claims = driver.claim()

    assert [claim.id for claim in claims] == [request.id for request in requests]


def test_claim_of_a_delayed_job_waits_for_its_time(driver: Harness) -> None:
    """Not a moment before its time, and then directly: nobody has to promote it."""
    job_id = driver.enqueue(delay_ms=MINUTE_MS).id

    early = driver.claim()
    driver.advance(MINUTE_MS)
    due = driver.claim()

    assert early == []
    assert [claim.id for claim in due] == [job_id]


def test_claim_of_a_parked_job_waits_for_its_wake_time(driver: Harness) -> None:
    """A parked job is claimed directly once its wake time has come."""
    job_id = driver.job_in(JobState.SUSPENDED)

    early = driver.claim()
    driver.advance(MINUTE_MS)
    due = driver.claim()

    assert early == []
    assert [claim.id for claim in due] == [job_id]


@pytest.mark.parametrize("verb", ["fail", "shed"])
def test_claim_of_a_job_given_back_waits_for_its_delay(driver: Harness, verb: str) -> None:
    """A job that failed or was shed is left alone for as long as it was given back for."""
    claim = driver.running()
    getattr(driver, verb)(claim, delay_ms=MINUTE_MS)

    early = driver.claim()
    driver.advance(MINUTE_MS)
    due = driver.claim()

    assert early == []
    assert [(again.id, again.token) for again in due] == [(claim.id, 2)]


def test_claim_orders_ready_delayed_and_parked_alike(driver: Harness) -> None:
    """How a job came to wait is no part of the order: priority first, then due time."""
    parked = driver.running(priority=5)
    driver.park(parked, delay_ms=3000)
    urgent = driver.enqueue(delay_ms=9000, priority=9)
    delayed = driver.enqueue(delay_ms=1000, priority=5)
    ready = driver.enqueue(priority=5)
    low = driver.enqueue()
    driver.advance(MINUTE_MS)

    claims = [driver.claim_one().id for _ in range(5)]

    assert claims == [urgent.id, ready.id, delayed.id, parked.id, low.id]


def test_claim_of_one_among_due_delayed_jobs_takes_the_higher_priority(driver: Harness) -> None:
    """A small limit over many delayed jobs still takes by priority, not by time."""
    driver.ask(*(driver.request(delay_ms=1000) for _ in range(5)))
    urgent = driver.enqueue(delay_ms=2000, priority=1)
    driver.advance(MINUTE_MS)

    claim = driver.claim_one()

    assert claim.id == urgent.id


def test_claim_of_a_shed_job_keeps_its_place(driver: Harness) -> None:
    """A shed job is owed since before, so it comes ahead of what came while it waited."""
    shed = driver.running()
    driver.shed(shed, delay_ms=5000)
    driver.advance(1000)
    later = driver.enqueue()
    driver.advance(MINUTE_MS)

    claims = driver.claim()

    assert [claim.id for claim in claims] == [shed.id, later.id]


def test_claim_of_a_failed_job_takes_a_new_place(driver: Harness) -> None:
    """A failed job is owed from the end of its backoff."""
    failed = driver.running()
    driver.fail(failed, delay_ms=5000)
    driver.advance(1000)
    later = driver.enqueue()
    driver.advance(MINUTE_MS)

    claims = driver.claim()

    assert [claim.id for claim in claims] == [later.id, failed.id]


@pytest.mark.parametrize("state", [JobState.READY, JobState.DELAYED, JobState.SUSPENDED])
def test_claim_of_unknown_names_leaves_them_untouched(driver: Harness, state: JobState) -> None:
    """A worker that does not know a name does not touch its jobs, and they hide no others."""
    stranger = driver.job_in(state, priority=100)
    driver.advance(2 * MINUTE_MS)
    before = driver.get(stranger)
    known = driver.enqueue(name=f"{driver.name}_known")

    claims = driver.claim(limit=1, names=[f"{driver.name}_known", f"{driver.name}_idle"])

    assert [claim.id for claim in claims] == [known.id]
    assert driver.get(stranger) == before


def test_claim_without_names_takes_nothing(driver: Harness) -> None:
    """A worker that knows no job takes none."""
    driver.enqueue()

    claims = driver.driver.claim(
        ClaimRequest(worker=driver.start_worker(), names=(), limit=10, queues=(driver.queue,))
    )

    assert claims == []


def test_claim_of_one_queue_leaves_the_others_untouched(driver: Harness) -> None:
    """A worker of one queue does not touch another's jobs."""
    elsewhere = driver.enqueue(queue=f"{driver.queue}-other", priority=100)
    before = driver.get(elsewhere.id)
    here = driver.enqueue()

    claims = driver.claim()

    assert [claim.id for claim in claims] == [here.id]
    assert driver.get(elsewhere.id) == before


@pytest.mark.parametrize("every_queue", [True, False])
def test_claim_of_several_queues_orders_over_all_of_them(
    driver: Harness, every_queue: bool
) -> None:
    """Priority and age count over all the queues a worker looks at, named or not."""
    queues = [f"{driver.queue}-{n}" for n in range(3)]
    expected = []
    for priority, queue in ((9, queues[2]), (5, queues[0]), (5, queues[1]), (1, queues[2])):
        expected.append(driver.enqueue(queue=queue, priority=priority).id)
        driver.advance(1000)
    driver.enqueue(queue=queues[0], priority=0)
    worker = driver.start_worker()

    claims = driver.driver.claim(
        ClaimRequest(
            worker=worker,
            names=(driver.name,),
            limit=4,
            queues=None if every_queue else tuple(queues),
        )
    )

    assert [claim.id for claim in claims] == expected


def test_claim_of_a_running_job_is_impossible(driver: Harness) -> None:
    """What one worker runs no other worker gets, however long it runs."""
    worker = driver.start_worker()
    driver.running(worker)

    for _ in range(3):
        driver.advance(driver.lease_ttl_ms // 2)
        assert driver.driver.heartbeat(worker).alive
        assert driver.claim() == []


@pytest.mark.parametrize("state", FINAL)
def test_claim_of_a_finished_job_is_impossible(driver: Harness, state: JobState) -> None:
    """What has ended is not run again by itself."""
    driver.job_in(state)
    driver.advance(24 * 60 * MINUTE_MS)

    claims = driver.claim()

    assert claims == []


def test_claim_after_claim_raises_the_token(driver: Harness) -> None:
    """Every claim of a job has a higher number than any before it, over retries too."""
    tokens = []
    driver.enqueue()
    for give_back in (driver.fail, driver.shed, driver.park, driver.lose, driver.bury):
        claim = driver.claim_one()
        tokens.append(claim.token)
        give_back(claim)
        driver.advance(MINUTE_MS)
    driver.retry(claim.id)
    tokens.append(driver.claim_one().token)

    assert tokens == [1, 2, 3, 4, 5, 6]


def test_claim_by_a_worker_without_a_lease_is_rescued_at_once(driver: Harness) -> None:
    """A claim by one whose lease is gone holds nobody's work back."""
    job_id = driver.enqueue().id
    driver.claim(uuid4())

    rescued = [rescue.id for rescue in driver.rescue()]

    assert job_id in rescued
    assert driver.claim_one().id == job_id
