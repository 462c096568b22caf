"""Leases: a worker's right to its jobs, renewed at once, and taken from it when it is gone."""

from __future__ import annotations

from uuid import uuid4

import pytest

from ultimate_jobs.records import WorkerRecord
from ultimate_jobs.states import JobState
from ultimate_jobs.types import WorkerCard

from .harness import MINUTE_MS, Harness


def _worker(driver: Harness, worker: object) -> WorkerRecord | None:
    for record in driver.driver.leases.workers():
        if record.worker == worker:
            return record
    return None


def test_heartbeat_within_the_lease_renews_it(driver: Harness) -> None:
    """Each heartbeat gives the worker one whole lease more, for as long as it beats."""
    worker = driver.start_worker()

    for _ in range(4):
        driver.advance(driver.lease_ttl_ms * 3 // 4)
        answer = driver.driver.heartbeat(worker)
        assert answer.alive is True

    assert answer.cancel_requested == frozenset()


def test_heartbeat_within_the_lease_keeps_the_jobs(driver: Harness) -> None:
    """However long a job runs, while its worker beats nobody takes it."""
    worker = driver.start_worker()
    claim = driver.running(worker)
    before = driver.get(claim.id)

    for _ in range(4):
        driver.advance(driver.lease_ttl_ms * 3 // 4)
        driver.driver.heartbeat(worker)
        assert claim.id not in [rescue.id for rescue in driver.rescue()]

    assert driver.get(claim.id) == before


@pytest.mark.parametrize("late_ms", [0, 1, MINUTE_MS])
def test_heartbeat_after_the_lease_never_revives_it(driver: Harness, late_ms: int) -> None:
    """A lease that has ended stays ended, whether or not anybody swept it."""
    worker = driver.start_worker()
    driver.advance(driver.lease_ttl_ms + late_ms)

    first = driver.driver.heartbeat(worker)
    again = driver.driver.heartbeat(worker)

    assert (first.alive, again.alive) == (False, False)


def test_heartbeat_after_the_lease_leaves_the_jobs_to_rescue(driver: Harness) -> None:
    """A beat that came too late saves nothing: the jobs are taken as if it had not come."""
    worker = driver.start_worker()
    claim = driver.running(worker)
    driver.advance(driver.lease_ttl_ms)
    driver.driver.heartbeat(worker)

    rescued = [rescue.id for rescue in driver.rescue()]

    assert claim.id in rescued
    assert driver.driver.heartbeat(worker).alive is False


def test_heartbeat_of_a_worker_without_a_lease_is_not_alive(driver: Harness) -> None:
    """Neither one that never registered nor one that gave its lease back is alive."""
    released = driver.start_worker()
    driver.driver.leases.release(released)

    answers = [driver.driver.heartbeat(worker).alive for worker in (uuid4(), released)]

    assert answers == [False, False]


def test_heartbeat_tells_which_jobs_were_asked_to_stop(driver: Harness) -> None:
    """A worker hears of its own running jobs only, and of each until it stops."""
    worker, other = driver.start_worker(), driver.start_worker()
    stopped, going, finished = (driver.running(worker) for _ in range(3))
    elsewhere = driver.running(other)
    for claim in (stopped, finished, elsewhere):
        driver.cancel(claim.id)
    driver.complete(finished)

    answers = [driver.driver.heartbeat(worker) for _ in range(2)]

    assert [answer.cancel_requested for answer in answers] == [frozenset({stopped.id})] * 2
    assert going.id not in answers[0].cancel_requested


def test_heartbeat_of_one_worker_renews_no_other(driver: Harness) -> None:
    """A worker's lease is its own."""
    alive, silent = driver.start_worker(), driver.start_worker()
    driver.advance(driver.lease_ttl_ms // 2)
    driver.driver.heartbeat(alive)
    driver.advance(driver.lease_ttl_ms // 2)

    answers = [driver.driver.heartbeat(worker).alive for worker in (alive, silent)]

    assert answers == [True, False]


def test_rescue_after_the_lease_makes_the_job_ready(driver: Harness) -> None:
    """A first loss costs no attempt, no wait and no place in the queue."""
    claim = driver.running(max_attempts=1)
    before = driver.get(claim.id)
    driver.advance(driver.lease_ttl_ms)

    with driver.timed() as span:
        [rescue] = [rescue for rescue in driver.rescue() if rescue.id == claim.id]

    job = driver.get(claim.id)
    assert (rescue.name, rescue.worker) == (driver.name, claim.worker)
    assert (rescue.token, rescue.lost_leases) == (claim.token, 1)
    assert (rescue.state, job.state) == (JobState.READY, JobState.READY)
    assert (job.attempt, job.lost_leases, job.worker) == (0, 1, None)
    assert (job.token, job.last_error, job.finished_at) == (claim.token, None, None)
    assert span.covers(job.run_at)
    assert job.due_at == before.due_at


def test_rescue_before_the_lease_has_ended_takes_nothing(driver: Harness) -> None:
    """A lease that stands is a lease."""
    claim = driver.running()
    before = driver.get(claim.id)
    driver.advance(driver.lease_ttl_ms - 5000)

    rescued = [rescue.id for rescue in driver.rescue()]

    assert claim.id not in rescued
    assert driver.get(claim.id) == before


@pytest.mark.parametrize("order", ["released", "never registered", "expired and forgotten"])
def test_rescue_of_a_job_whose_lease_row_is_gone_takes_it(driver: Harness, order: str) -> None:
    """A running job without a lease row counts as lost, in whatever order rows disappear."""
    worker = uuid4() if order == "never registered" else driver.start_worker()
    claim = driver.running(worker)
    if order == "expired and forgotten":
        driver.advance(driver.lease_ttl_ms)
    driver.driver.leases.release(worker)

    [rescue] = [rescue for rescue in driver.rescue() if rescue.id == claim.id]

    assert (rescue.worker, rescue.state) == (worker, JobState.READY)
    assert driver.claim_one().id == claim.id


def test_rescue_takes_each_job_once(driver: Harness) -> None:
    """What was rescued waits; a second sweep finds nothing to take from it."""
    claim = driver.running()
    driver.lose(claim)
    before = driver.get(claim.id)

    again = [rescue.id for rescue in driver.rescue()]

    assert claim.id not in again
    assert driver.get(claim.id) == before


def test_rescue_after_repeated_losses_waits_longer_each_time(driver: Harness) -> None:
    """A job that keeps losing its worker comes back later each time, up to a minute."""
    driver.enqueue()
    expected = [0, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]

    for losses, delay_ms in enumerate(expected, start=1):
        claim = driver.claim_one()
        with driver.timed() as span:
            rescue = driver.lose(claim)
        job = driver.get(claim.id)
        assert (rescue.lost_leases, job.lost_leases) == (losses, losses)
        assert span.covers(job.run_at, plus_ms=delay_ms)
        if delay_ms:
            assert job.due_at == job.run_at
        assert job.attempt == 0
        driver.advance(MINUTE_MS)


def test_rescue_at_the_cap_of_lost_leases_ends_the_job(driver: Harness) -> None:
    """A job that kills its workers ends dead, says so, and costs nothing of its attempts."""
    claim = driver.running(key="k", max_attempts=1)

    rescue = driver.lose_to_the_cap(claim)

    job = driver.get(claim.id)
    assert (rescue.state, rescue.lost_leases) == (JobState.DEAD, driver.max_lost_leases)
    assert (job.state, job.lost_leases) == (JobState.DEAD, driver.max_lost_leases)
    assert (job.attempt, job.worker, job.token) == (0, rescue.worker, rescue.token)
    assert job.finished_at is not None
    assert job.last_error is not None
    assert job.last_error.startswith(f"X_WORKER_GONE: job {job.id} lost its worker")
    assert driver.enqueue(key="k").deduped is False


def test_rescue_of_a_job_asked_to_stop_cancels_it(driver: Harness) -> None:
    """Nobody runs again what was cancelled while its worker was dying."""
    claim = driver.running()
    driver.cancel(claim.id)

    rescue = driver.lose(claim)

    job = driver.get(claim.id)
    assert (rescue.state, job.state) == (JobState.CANCELLED, JobState.CANCELLED)
    assert (job.lost_leases, job.worker) == (1, claim.worker)
    assert job.finished_at is not None
    assert driver.claim() == []


def test_rescue_keeps_the_attempts_that_failures_used(driver: Harness) -> None:
    """A lost worker gives back its own attempt and no other."""
    driver.fail(driver.running(max_attempts=3))
    claim = driver.claim_one()
    assert claim.attempt == 2

    driver.lose(claim)

    job = driver.get(claim.id)
    assert (job.attempt, job.last_error) == (1, "ValueError: boom")


def test_rescue_with_more_lost_than_its_limit_takes_its_limit(driver: Harness) -> None:
    """One sweep takes at most what it was asked to, the next one goes on."""
    driver.ask(*(driver.request() for _ in range(5)))
    worker = driver.start_worker()
    claimed = {claim.id for claim in driver.claim(worker)}
    driver.advance(driver.lease_ttl_ms)

    sweeps = [driver.rescue(limit=2) for _ in range(4)]

    assert [len(sweep) for sweep in sweeps] == [2, 2, 1, 0]
    assert {rescue.id for sweep in sweeps for rescue in sweep} == claimed


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.RUNNING])
def test_rescue_leaves_jobs_that_do_not_run(driver: Harness, state: JobState) -> None:
    """No sweep leaves a final state, and none touches what waits."""
    job_id = driver.job_in(state)
    driver.advance(2 * driver.lease_ttl_ms)
    before, events = driver.get(job_id), driver.events(job_id)

    driver.rescue()

    assert driver.get(job_id) == before
    assert driver.events(job_id) == events


def test_rescue_takes_only_from_the_dead(driver: Harness) -> None:
    """Of two workers, the one that beats keeps its jobs."""
    dead, alive = driver.start_worker(), driver.start_worker()
    lost, kept = driver.running(dead), driver.running(alive)
    driver.advance(driver.lease_ttl_ms // 2)
    driver.driver.heartbeat(alive)
    driver.advance(driver.lease_ttl_ms // 2)

    rescued = [rescue.id for rescue in driver.rescue()]

    assert rescued == [lost.id]
    assert driver.get(kept.id).state is JobState.RUNNING


def test_workers_with_a_lease_are_listed_with_what_they_said(driver: Harness) -> None:
    """A screen sees each worker's names, queues, place and load, and when its lease ends."""
    card = WorkerCard(
        worker=uuid4(),
        names=("a.b", driver.name),
        queues=None,
        hostname="host-7",
        pid=123,
        threads=8,
        app_version="2026.1",
    )

    with driver.timed() as span:
        driver.driver.leases.register(card)
    driver.running(card.worker)
    driver.running(card.worker)

    record = _worker(driver, card.worker)
    assert record is not None
    assert record.info == {
        "names": ["a.b", driver.name],
        "queues": None,
        "hostname": "host-7",
        "pid": 123,
        "threads": 8,
        "app_version": "2026.1",
    }
    assert (record.running, record.expired) == (2, False)
    assert span.covers(record.started_at)
    assert span.covers(record.renewed_at)
    assert span.covers(record.expires_at, plus_ms=driver.lease_ttl_ms)


def test_workers_after_a_heartbeat_show_when_it_was(driver: Harness) -> None:
    """A renewal moves the lease's end and not its beginning."""
    with driver.timed() as started:
        worker = driver.start_worker()
    driver.advance(5000)

    with driver.timed() as renewed:
        driver.driver.heartbeat(worker)

    record = _worker(driver, worker)
    assert record is not None
    assert started.covers(record.started_at)
    assert renewed.covers(record.renewed_at)
    assert renewed.covers(record.expires_at, plus_ms=driver.lease_ttl_ms)


def test_workers_whose_lease_ended_are_shown_until_their_jobs_are_taken(driver: Harness) -> None:
    """An expired worker is listed while it still holds jobs, and goes with the last of them."""
    worker, idle = driver.start_worker(), driver.start_worker()
    driver.running(worker)
    driver.running(worker)
    driver.advance(driver.lease_ttl_ms)
    before = _worker(driver, worker)

    driver.rescue(limit=1)
    halfway = _worker(driver, worker)
    driver.rescue()

    assert before is not None
    assert (before.expired, before.running) == (True, 2)
    assert halfway is not None
    assert (halfway.expired, halfway.running) == (True, 1)
    assert _worker(driver, worker) is None
    assert _worker(driver, idle) is None


def test_workers_that_gave_their_lease_back_are_gone(driver: Harness) -> None:
    """A worker that leaves in good order is no longer listed, and leaving twice is no error."""
    worker = driver.start_worker()

    driver.driver.leases.release(worker)
    driver.driver.leases.release(worker)

    assert _worker(driver, worker) is None
