"""Pruning beside others: it takes what nobody holds, waits for nobody, and nobody waits for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from tests.concurrency.conftest import register_worker
from tests.concurrency.sessions import Session, fetch, wait_until_blocked
from tests.factories import JobFactory
from ultimate_jobs.conf import RetentionOptions
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.ids import FIRST_ID, LAST_ID, first_id_at
from ultimate_jobs.models import Job
from ultimate_jobs.records import Pruned
from ultimate_jobs.services.operators import Overview, overview
from ultimate_jobs.types import ANY_TENANT, ClaimRequest

Pair = tuple[Session, Session]


def old(count: int, state: str = "dead") -> list[UUID]:
    moment = datetime.now(UTC) - timedelta(days=400)
    return [
        JobFactory(
            id=UUID(int=first_id_at(moment).int + n), name="race", state=state, finished_at=moment
        ).id
        for n in range(count)
    ]


def prune(driver: PostgresDriver) -> Pruned:
    return driver.retention.prune(RetentionOptions(), after=FIRST_ID, through=LAST_ID, limit=1000)


@pytest.fixture(autouse=True)
def impatient(pair: Pair) -> None:
    """A wait for a lock is an error in both sessions."""
    for session in pair:
        session.sql("set lock_timeout = '2s'")


@pytest.mark.parametrize("commits", [True, False])
def test_prune_passes_by_a_job_that_is_being_retried(
    pair: Pair, driver: PostgresDriver, commits: bool
) -> None:
    """This prune leaves the job in any case; the next one takes it where no retry was committed."""
    first, second = pair
    [retried, other] = old(2)
    first.begin()
    first.run(
        lambda: driver.introspection.retry(retried, tenant=ANY_TENANT, by="ops", fresh_run_id=None)
    )

    removed = second.run(lambda: prune(driver))
    first.commit() if commits else first.rollback()

    assert removed.dead == 1
    assert list(Job.objects.values_list("id", flat=True)) == [retried]
    assert prune(driver).dead == (0 if commits else 1)
    assert other != retried


def test_retry_of_a_job_that_is_being_pruned_finds_none(pair: Pair, driver: PostgresDriver) -> None:
    """It waits for the prune to end, and is told that the job is gone."""
    first, second = pair
    [job_id] = old(1)
    second.sql("set lock_timeout = 0")
    first.begin()
    first.run(lambda: prune(driver))

    asked = second.start(
        lambda: driver.introspection.retry(job_id, tenant=ANY_TENANT, by="ops", fresh_run_id=None)
    )
    wait_until_blocked(second)
    first.commit()

    with pytest.raises(Exception, match="X_JOB_NOT_FOUND"):
        asked.result(timeout=20)


def test_prunes_beside_each_other_share_the_rows(pair: Pair, driver: PostgresDriver) -> None:
    """An operator may prune while a worker does: none waits, and no row is counted twice."""
    first, second = pair
    old(50)
    first.begin()
    taken = first.run(lambda: prune(driver))
    old_again = [
        one.id
        for one in [
            JobFactory(name="race", state="dead", finished_at=datetime.now(UTC) - timedelta(400))
            for _ in range(5)
        ]
    ]

    beside = second.run(lambda: prune(driver))
    first.commit()

    assert (taken.dead, beside.dead) == (50, len(old_again))
    assert Job.objects.count() == 0


def test_claims_enqueues_and_counts_do_not_wait_for_a_prune(
    pair: Pair, driver: PostgresDriver
) -> None:
    """What a batch holds locked is what nobody else wants."""
    first, second = pair
    old(100, "completed")
    due = JobFactory(name="race").id
    worker = register_worker(driver)
    first.begin()
    first.run(lambda: prune(driver))

    claimed = second.run(lambda: driver.claim(ClaimRequest(worker, ("race",), 10)))
    counted: Overview = second.run(lambda: overview(driver))
    first.commit()

    assert [claim.id for claim in claimed] == [due]
    assert counted.total.running == 1


def test_prune_waits_for_no_claim(pair: Pair, driver: PostgresDriver) -> None:
    """Jobs that are being claimed are live, and are only read past."""
    first, second = pair
    old(10)
    JobFactory(name="race")
    worker = register_worker(driver)
    first.begin()
    first.run(lambda: driver.claim(ClaimRequest(worker, ("race",), 10)))

    removed = second.run(lambda: prune(driver))
    first.commit()

    assert removed.dead == 10


def test_pause_of_a_queue_by_two_at_once_is_the_first_ones(
    pair: Pair, driver: PostgresDriver
) -> None:
    """The second is told who was first."""
    first, second = pair
    second.sql("set lock_timeout = 0")
    first.begin()
    first.run(lambda: driver.queues.pause("billing", by="ann"))
    asked = second.start(lambda: driver.queues.pause("billing", by="bob"))
    wait_until_blocked(second)
    first.commit()

    answer = asked.result(timeout=20)

    assert (answer.changed, answer.paused_by) == (False, "ann")
    assert fetch("select paused_by from x_job_queues") == [("ann",)]
