"""Enqueuers that race each other, a claim, and an end; two connections, ordered by hand."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from django.db import transaction

from tests.concurrency.requests import claim, enqueue, request
from tests.concurrency.sessions import Session, fetch, sessions, wait_until_blocked
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.drivers.postgres.statements import Statements
from ultimate_jobs.errors import EnqueueSerialization, JobDuplicate
from ultimate_jobs.states import JobState
from ultimate_jobs.types import ANY_TENANT, Completion, OnConflict, Written

LIVE = "state in ('ready', 'delayed', 'running', 'suspended')"


def test_enqueue_against_an_open_transaction_inserts_when_that_one_rolls_back(
    driver: PostgresDriver, pair: tuple[Session, Session]
) -> None:
    """Nobody is told "exists already" on the strength of a row that is never committed."""
    first, second = pair
    first.begin()
    gone = first.run(lambda: enqueue(driver))
    waiting = second.start(lambda: enqueue(driver))
    wait_until_blocked(second)

    first.rollback()
    answer = waiting.result(timeout=20)

    assert answer.deduped is False
    assert answer.id != gone.id
    assert fetch(f"select id from x_jobs where {LIVE}") == [(answer.id,)]


def test_enqueue_against_an_open_transaction_dedupes_when_that_one_commits(
    driver: PostgresDriver, pair: tuple[Session, Session]
) -> None:
    """The second of two racing enqueuers gets the id that the first one committed."""
    first, second = pair
    first.begin()
    kept = first.run(lambda: enqueue(driver))
    waiting = second.start(lambda: enqueue(driver))
    wait_until_blocked(second)

    first.commit()
    answer = waiting.result(timeout=20)

    assert (answer.id, answer.deduped) == (kept.id, True)
    assert fetch("select count(*) from x_jobs") == [(1,)]


@pytest.mark.parametrize("on_conflict", [OnConflict.EXISTING, OnConflict.RERUN])
def test_claim_passes_by_a_job_that_an_open_transaction_deduped_against(
    driver: PostgresDriver,
    worker: UUID,
    pair: tuple[Session, Session],
    on_conflict: OnConflict,
) -> None:
    """A caller that changed data and then deduped is seen by the job, whatever the timing."""
    caller, _ = pair
    waiting = enqueue(driver)
    caller.begin()
    caller.sql("insert into testapp_document (name, version) values ('doc', 7)")
    deduped = caller.run(lambda: enqueue(driver, on_conflict=on_conflict))

    while_open = claim(driver, worker)
    caller.commit()
    after = claim(driver, worker)

    assert deduped.deduped is True
    assert while_open == []
    assert [one.id for one in after] == [waiting.id]
    assert fetch("select version from testapp_document") == [(7,)]


def test_dedupe_against_a_claim_in_flight_answers_running_and_does_not_hold_up_the_ack(
    driver: PostgresDriver, worker: UUID, pair: tuple[Session, Session]
) -> None:
    """The answer says running; the caller's open transaction delays no worker's batch."""
    claimer, caller = pair
    enqueue(driver)
    claimer.begin()
    (claimed,) = claimer.run(lambda: claim(driver, worker))
    caller.begin()
    waiting = caller.start(lambda: enqueue(driver))
    wait_until_blocked(caller)

    claimer.commit()
    answer = waiting.result(timeout=20)
    caller.commit()
    (written,) = driver.ack(worker, [Completion(claimed.id, claimed.token)])

    assert (answer.id, answer.state) == (claimed.id, JobState.RUNNING)
    assert written.outcome is Written.DONE


def test_dedupe_against_a_running_job_takes_no_lock_on_it(
    driver: PostgresDriver, worker: UUID, pair: tuple[Session, Session]
) -> None:
    """An ack goes through while a caller that deduped against the running job is still open."""
    caller, _ = pair
    enqueue(driver)
    (claimed,) = claim(driver, worker)
    caller.begin()
    answer = caller.run(lambda: enqueue(driver))

    (written,) = driver.ack(worker, [Completion(claimed.id, claimed.token)])
    caller.commit()

    assert answer.state is JobState.RUNNING
    assert written.outcome is Written.DONE


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_ack_of_a_job_with_an_open_rerun_request_is_busy_until_that_transaction_ends(
    driver: PostgresDriver, worker: UUID, pair: tuple[Session, Session], ending: str
) -> None:
    """Exactly one more run follows a committed request, none a rolled-back one."""
    caller, _ = pair
    enqueue(driver)
    (claimed,) = claim(driver, worker)
    caller.begin()
    caller.run(lambda: enqueue(driver, on_conflict=OnConflict.RERUN, payload='{"v": 2}'))

    (busy,) = driver.ack(worker, [Completion(claimed.id, claimed.token)])
    caller.commit() if ending == "commit" else caller.rollback()
    (done,) = driver.ack(worker, [Completion(claimed.id, claimed.token)])

    assert (busy.outcome, done.outcome) == (Written.BUSY, Written.DONE)
    followers = fetch(f"select payload::text from x_jobs where {LIVE}")
    assert followers == ([('{"v": 2}',)] if ending == "commit" else [])


def test_ack_of_a_batch_with_one_locked_row_completes_the_others(
    driver: PostgresDriver, worker: UUID, pair: tuple[Session, Session]
) -> None:
    """One caller's open transaction holds up its own job only."""
    caller, _ = pair
    for key in ("a", "b", "c"):
        enqueue(driver, key)
    claimed = claim(driver, worker)
    caller.begin()
    caller.run(lambda: enqueue(driver, "b", on_conflict=OnConflict.RERUN))

    answers = driver.ack(worker, [Completion(one.id, one.token) for one in claimed])
    caller.rollback()

    outcomes = {one.key: answer.outcome for one, answer in zip(claimed, answers, strict=True)}
    assert outcomes == {"a": Written.DONE, "b": Written.BUSY, "c": Written.DONE}


@pytest.mark.parametrize("after", ["enqueue.one", "enqueue.share_waiting"])
@pytest.mark.parametrize("on_conflict", list(OnConflict))
def test_enqueue_whose_holder_ends_between_insert_and_lookup_gets_a_row_of_its_own(
    driver: PostgresDriver,
    worker: UUID,
    monkeypatch: pytest.MonkeyPatch,
    after: str,
    on_conflict: OnConflict,
) -> None:
    """The key is held when inserting and free when looking: neither an error nor a lost job."""
    enqueue(driver)
    (claimed,) = claim(driver, worker)
    plain = Statements.rows
    ended: list[str] = []

    def rows(self: Statements, name: str, /, **params: object) -> list[tuple[object, ...]]:
        found = plain(self, name, **params)
        if name == after and not ended:
            ended.append(name)
            driver.ack(worker, [Completion(claimed.id, claimed.token)])
        return found

    monkeypatch.setattr(Statements, "rows", rows)
    answer = enqueue(driver, on_conflict=on_conflict)

    assert ended == [after]
    assert answer.deduped is False
    assert answer.id != claimed.id
    assert fetch(f"select id from x_jobs where {LIVE}") == [(answer.id,)]


def test_enqueue_many_of_the_same_keys_in_opposite_order_does_not_deadlock(
    driver: PostgresDriver, pair: tuple[Session, Session]
) -> None:
    """Batches take their keys in one order, whatever order the caller gave."""
    first, second = pair
    keys = [f"k{number:03}" for number in range(200)]
    for _ in range(5):
        forwards = first.start(
            lambda: driver.enqueue([request(k) for k in keys], on_conflict=OnConflict.EXISTING)
        )
        backwards = second.start(
            lambda: driver.enqueue(
                [request(k) for k in reversed(keys)], on_conflict=OnConflict.EXISTING
            )
        )

        one, other = forwards.result(timeout=20), backwards.result(timeout=20)

        assert [answer.id for answer in one] == [answer.id for answer in reversed(other)]
    assert fetch("select count(*) from x_jobs") == [(200,)]


def test_dedupe_at_read_committed_leaves_the_callers_transaction_usable(
    driver: PostgresDriver,
) -> None:
    """A duplicate is an answer, not a failed statement."""
    first = enqueue(driver)

    with transaction.atomic():
        second = enqueue(driver)
        fetch("insert into testapp_document (name) values ('after')")

    assert second.id == first.id
    assert fetch("select count(*) from testapp_document") == [(1,)]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_enqueue_above_read_committed_against_an_unseen_holder_is_refused_and_retriable(
    driver: PostgresDriver, pair: tuple[Session, Session], level: str
) -> None:
    """The outer transaction survives, nothing is half-written, and a new transaction dedupes."""
    first, second = pair
    first.begin(level)
    first.sql("insert into testapp_document (name) values ('before')")
    held = second.run(lambda: enqueue(driver))

    def refused() -> str:
        with pytest.raises(EnqueueSerialization) as caught:
            enqueue(driver)
        return caught.value.code

    code = first.run(refused)
    first.sql("insert into testapp_document (name) values ('after')")
    first.commit()

    assert code == "X_ENQUEUE_SERIALIZATION"
    assert fetch("select count(*) from testapp_document") == [(2,)]
    assert fetch("select id from x_jobs") == [(held.id,)]
    assert first.run(lambda: enqueue(driver)).id == held.id


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_enqueue_above_read_committed_without_contention_works(
    driver: PostgresDriver, level: str
) -> None:
    """A free key is inserted and a visible holder is answered at every isolation level."""
    with transaction.atomic():
        fetch(f"set transaction isolation level {level}")
        first = enqueue(driver)
        again = enqueue(driver)
        many = driver.enqueue([request("k1"), request("k2")], on_conflict=OnConflict.EXISTING)

    assert (first.deduped, again.deduped, again.id) == (False, True, first.id)
    assert [answer.deduped for answer in many] == [True, False]


def test_error_on_conflict_names_the_holder_and_leaves_nothing_of_the_batch(
    driver: PostgresDriver,
) -> None:
    """A refused batch is refused whole, inside and outside a transaction."""
    held = enqueue(driver, "k2")

    with pytest.raises(JobDuplicate) as caught:
        driver.enqueue([request("k1"), request("k2"), request("k3")], on_conflict=OnConflict.ERROR)

    assert caught.value.job_id == str(held.id)
    assert fetch("select id from x_jobs") == [(held.id,)]


def test_retry_that_loses_its_key_to_a_racing_enqueue_is_refused_by_name(
    driver: PostgresDriver, worker: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An enqueue between the look and the write gives the code and the holder, no raw error."""
    old = enqueue(driver)
    driver.cancel([old.id], tenant=ANY_TENANT, by="test")
    plain = Statements.rows
    newer: list[UUID] = []

    with sessions(1) as (other,):

        def rows(self: Statements, name: str, /, **params: object) -> list[tuple[object, ...]]:
            if name == "endings.retry":
                newer.append(other.run(lambda: enqueue(driver)).id)
            return plain(self, name, **params)

        monkeypatch.setattr(Statements, "rows", rows)
        with pytest.raises(JobDuplicate) as caught:
            driver.introspection.retry(old.id, tenant=ANY_TENANT, by="test", fresh_run_id=None)

    assert caught.value.job_id == str(newer[0])
    assert fetch("select state, retry_count from x_jobs where id = %s", (old.id,)) == [
        ("cancelled", 0)
    ]


def test_claims_of_many_workers_at_once_share_nothing_and_exceed_no_limit(
    driver: PostgresDriver,
) -> None:
    """No job is claimed twice, and no claim takes more than was asked."""
    driver.enqueue([request(f"k{n}") for n in range(400)], on_conflict=OnConflict.EXISTING)
    claimed: list[UUID] = []

    with sessions(4) as opened:
        while True:
            futures = [session.start(lambda: claim(driver, uuid4(), 7)) for session in opened]
            batches = [future.result(timeout=20) for future in futures]
            assert all(len(batch) <= 7 for batch in batches)
            claimed += [one.id for batch in batches for one in batch]
            if not any(batches):
                break

    assert len(claimed) == len(set(claimed)) == 400
