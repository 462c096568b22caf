"""Fences: whoever lost a claim, by whatever path, writes nothing."""

from __future__ import annotations

from uuid import UUID, uuid4

from tests.concurrency.conftest import register_worker
from tests.concurrency.requests import claim, enqueue
from tests.concurrency.sessions import Session, fetch, wait_until_blocked
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.states import JobState
from ultimate_jobs.types import ANY_TENANT, ClaimRequest, Completion, Nack, Written


def expire(worker: UUID) -> None:
    fetch(
        "update x_job_leases set expires_at = x_now() - interval '1 s' where holder = %s", (worker,)
    )


def test_write_of_an_expired_worker_after_a_rescue_changes_nothing(
    driver: PostgresDriver, worker: UUID
) -> None:
    """Ack and nack carry worker and token; after the rescue neither matches."""
    job = enqueue(driver)
    (stale,) = claim(driver, worker)
    expire(worker)
    driver.leases.rescue(limit=10)
    other = register_worker(driver)
    (fresh,) = claim(driver, other)
    before = fetch("select xmin::text, state, worker, token from x_jobs")

    (acked,) = driver.ack(worker, [Completion(stale.id, stale.token, '"stale"')])
    (nacked,) = driver.nack(worker, [Nack(stale.id, stale.token)])

    assert acked.outcome is nacked.outcome is Written.LOST
    assert fetch("select xmin::text, state, worker, token from x_jobs") == before
    assert (fresh.id, fresh.token) == (job.id, stale.token + 1)


def test_write_with_the_token_of_an_earlier_claim_of_the_same_worker_is_refused(
    driver: PostgresDriver, worker: UUID
) -> None:
    """The worker alone is no fence: a body of its first claim may outlive the second."""
    enqueue(driver)
    (first,) = claim(driver, worker)
    driver.nack(worker, [Nack(first.id, first.token, counts_as_attempt=False)])
    (second,) = claim(driver, worker)

    (late,) = driver.ack(worker, [Completion(first.id, first.token)])
    (right,) = driver.ack(worker, [Completion(second.id, second.token)])

    assert (late.outcome, right.outcome) == (Written.LOST, Written.DONE)


def test_heartbeat_after_expiry_does_not_revive_the_lease(
    driver: PostgresDriver, worker: UUID
) -> None:
    """Its jobs may run elsewhere already, so the worker must take a new identity."""
    enqueue(driver)
    claim(driver, worker)
    expire(worker)

    answer = driver.heartbeat(worker)

    assert answer.alive is False
    assert [one.worker for one in driver.leases.rescue(limit=10)] == [worker]


def test_heartbeat_touches_no_job_row(driver: PostgresDriver, worker: UUID) -> None:
    """Keeping a thousand claims alive costs one lease row."""
    enqueue(driver)
    claim(driver, worker)
    before = fetch("select xmin::text, ctid::text from x_jobs")

    assert driver.heartbeat(worker).alive is True

    assert fetch("select xmin::text, ctid::text from x_jobs") == before


def test_rescue_finds_a_job_whose_lease_row_is_gone(driver: PostgresDriver, worker: UUID) -> None:
    """The order in which rows are swept does not matter: no lease row counts as expired."""
    enqueue(driver)
    claim(driver, worker)
    fetch("delete from x_job_leases")

    assert [one.state for one in driver.leases.rescue(limit=10)] == [JobState.READY]


def test_rescue_of_two_janitors_at_once_takes_each_job_once(
    driver: PostgresDriver, worker: UUID, pair: tuple[Session, Session]
) -> None:
    """The second sweep skips what the first has locked, and finds nothing afterwards."""
    first, second = pair
    enqueue(driver)
    claim(driver, worker)
    expire(worker)
    first.begin()
    taken = first.run(lambda: driver.leases.rescue(limit=10))

    meanwhile = second.run(lambda: driver.leases.rescue(limit=10))
    first.commit()
    after = second.run(lambda: driver.leases.rescue(limit=10))

    assert [len(taken), len(meanwhile), len(after)] == [1, 0, 0]
    assert fetch("select lost_leases, attempt, state from x_jobs") == [(1, 0, "ready")]


def test_rescue_and_a_late_ack_at_once_have_one_winner(
    driver: PostgresDriver, worker: UUID, pair: tuple[Session, Session]
) -> None:
    """An ack that committed first ends the job; the sweep then leaves it alone."""
    acker, sweeper = pair
    enqueue(driver)
    (claimed,) = claim(driver, worker)
    expire(worker)
    acker.begin()
    (acked,) = acker.run(lambda: driver.ack(worker, [Completion(claimed.id, claimed.token)]))

    skipped = sweeper.run(lambda: driver.leases.rescue(limit=10))
    acker.commit()
    after = sweeper.run(lambda: driver.leases.rescue(limit=10))

    assert acked.outcome is Written.DONE
    assert (skipped, after) == ([], [])
    assert fetch("select state, lost_leases from x_jobs") == [("completed", 0)]


def test_rescue_of_a_row_that_cannot_be_rescued_does_not_keep_the_others_lost(
    driver: PostgresDriver, worker: UUID
) -> None:
    """Each job is rescued in its own right."""
    bad = enqueue(driver, "bad")
    good = enqueue(driver, "good")
    claim(driver, worker)
    expire(worker)
    fetch(
        "create function refuse_bad() returns trigger language plpgsql as $$ begin "
        "if new.idempotency_key = 'bad' then raise exception 'no'; end if; return new; end $$"
    )
    fetch(
        "create trigger refuse_bad before update on x_jobs for each row "
        "execute function refuse_bad()"
    )
    try:
        rescued = driver.leases.rescue(limit=10)
    finally:
        fetch("drop trigger refuse_bad on x_jobs")
        fetch("drop function refuse_bad()")

    assert [one.id for one in rescued] == [good.id]
    assert [one.id for one in driver.leases.rescue(limit=10)] == [bad.id]


def test_cancel_that_commits_before_the_ack_wins_over_the_completion(
    driver: PostgresDriver, worker: UUID, pair: tuple[Session, Session]
) -> None:
    """A cancel after the worker's last look still ends the run as cancelled."""
    canceller, acker = pair
    job = enqueue(driver)
    (claimed,) = claim(driver, worker)
    canceller.begin()
    canceller.run(lambda: driver.cancel([job.id], tenant=ANY_TENANT, by="test"))
    (busy,) = acker.run(lambda: driver.ack(worker, [Completion(claimed.id, claimed.token)]))

    canceller.commit()
    (done,) = acker.run(lambda: driver.ack(worker, [Completion(claimed.id, claimed.token)]))

    assert busy.outcome is Written.BUSY
    assert done.state is JobState.CANCELLED


def test_cancel_waits_for_a_claim_in_flight_and_then_asks_the_running_job(
    driver: PostgresDriver, worker: UUID, pair: tuple[Session, Session]
) -> None:
    """State and reality agree: what was claimed is asked to stop, not called cancelled."""
    claimer, canceller = pair
    job = enqueue(driver)
    claimer.begin()
    claimer.run(lambda: claim(driver, worker))
    waiting = canceller.start(lambda: driver.cancel([job.id], tenant=ANY_TENANT, by="test"))
    wait_until_blocked(canceller)

    claimer.commit()
    (answer,) = waiting.result(timeout=20)

    assert answer.state is JobState.RUNNING
    assert driver.heartbeat(worker).cancel_requested == {job.id}


def test_unknown_names_and_other_queues_keep_their_xmin(driver: PostgresDriver) -> None:
    """A worker of an older release leaves what it does not know untouched."""
    enqueue(driver, name="of_a_newer_release")
    enqueue(driver, queue="elsewhere")
    before = fetch("select id, xmin::text from x_jobs order by id")

    claimed = driver.claim(
        ClaimRequest(worker=uuid4(), names=("race",), queues=("default",), limit=10)
    )

    assert claimed == []
    assert fetch("select id, xmin::text from x_jobs order by id") == before
