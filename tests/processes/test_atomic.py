"""An atomic body and its completion are one transaction: both stand, or neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from tests.app.models import Document
from tests.concurrency.conftest import register_worker
from tests.concurrency.sessions import sessions
from tests.processes.fakes import a_claim
from ultimate_jobs import ANY_TENANT, JobContext, RetryLater, cancel, get, job
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.errors import DriverUnsupported
from ultimate_jobs.processes.crew import Run
from ultimate_jobs.processes.deadlines import Deadlines
from ultimate_jobs.processes.executor import Executor
from ultimate_jobs.processes.worker import Worker
from ultimate_jobs.services.attempts import Committed, Doubtful
from ultimate_jobs.services.context import JobContext as Context
from ultimate_jobs.states import JobState
from ultimate_jobs.types import Claim, ClaimRequest, Completion, Nack

pytestmark = pytest.mark.django_db(transaction=True)

Body = Callable[[JobContext], Any]


@pytest.fixture
def driver(own_registry: None) -> PostgresDriver:
    return PostgresDriver("default")


def declared(body: Body, **options: Any) -> Any:
    """Declare a body that first writes a document."""

    @job(key="x", name="atomic", atomic=True, **options)
    def atomic(ctx: JobContext) -> Any:
        Document.objects.create(name="effect", version=1)
        return body(ctx)

    return atomic


def claimed(driver: PostgresDriver, handle: Any) -> Claim:
    handle.enqueue()
    worker = register_worker(driver)
    [claim] = driver.claim(ClaimRequest(worker, names=("atomic",), limit=1))
    return claim


def performed(driver: PostgresDriver, claim: Claim, **options: Any) -> Any:
    executor = Executor(stands=lambda _: True, max_result_bytes=1000, driver=driver, **options)
    return executor.perform(Run(claim, Context(claim), received=0.0))


def effects() -> int:
    return Document.objects.filter(name="effect").count()


def state(claim: Claim) -> JobState:
    return get(claim.id, tenant=ANY_TENANT).state


def test_body_that_returns_is_completed_with_its_effects(driver: PostgresDriver) -> None:
    """Nothing is left to write."""
    claim = claimed(driver, declared(lambda ctx: 7))

    assert performed(driver, claim) == Committed()

    assert (effects(), state(claim)) == (1, JobState.COMPLETED)
    assert get(claim.id, tenant=ANY_TENANT).result == "7"
    assert not connection.in_atomic_block


def test_completion_is_not_seen_before_its_effects(driver: PostgresDriver) -> None:
    """Until the commit the job runs, for everybody else."""
    seen: list[JobState] = []
    claim = claimed(driver, declared(lambda ctx: transaction.on_commit(look)))

    def look() -> None:
        seen.append(state(claim))

    performed(driver, claim)

    assert seen == [JobState.COMPLETED]


def raises(error: BaseException) -> Body:
    def body(ctx: JobContext) -> None:
        raise error

    return body


@pytest.mark.parametrize(
    "body",
    [
        raises(ValueError("boom")),
        raises(RetryLater(delay=5)),
        raises(SystemExit(1)),
        lambda ctx: object(),
        lambda ctx: transaction.set_rollback(True),
        lambda ctx: transaction.atomic().__enter__() and None,
        lambda ctx: transaction.atomic(using="other").__enter__() and None,
    ],
    ids=["error", "RetryLater", "SystemExit", "result", "rollback", "atomic open", "other open"],
)
def test_body_that_does_not_complete_leaves_no_effect(driver: PostgresDriver, body: Body) -> None:
    """Whatever it ends in is rolled back, and then recorded."""
    claim = claimed(driver, declared(body))

    ending = performed(driver, claim)

    nack = ending.nack if isinstance(ending, Doubtful) else ending
    assert isinstance(nack, Nack)
    assert (effects(), state(claim)) == (0, JobState.RUNNING)
    assert not connection.in_atomic_block
    driver.nack(claim.worker, [nack])
    assert state(claim) in (JobState.READY, JobState.DEAD)


def test_body_whose_claim_was_lost_leaves_no_effect(driver: PostgresDriver) -> None:
    """The fence stands in the transaction itself."""

    def lose(ctx: JobContext) -> None:
        with connection.cursor() as cursor:
            cursor.execute("select 1")
        other = PostgresDriver("default")
        run_elsewhere(lambda: (other.leases.release(claim.worker), other.leases.rescue(limit=10)))

    claim = claimed(driver, declared(lose))

    ending = performed(driver, claim)

    assert ending == Nack(claim.id, claim.token, counts_as_attempt=False)
    assert (effects(), state(claim)) == (0, JobState.READY)
    [answer] = driver.nack(claim.worker, [ending])
    assert answer.outcome == "lost"


def test_body_that_was_to_be_cancelled_leaves_no_effect(driver: PostgresDriver) -> None:
    """A cancel that comes before the commit wins over a body that never looked."""
    claim = claimed(
        driver,
        declared(lambda ctx: run_elsewhere(lambda: cancel(ctx.job_id, tenant=ANY_TENANT))),
    )

    ending = performed(driver, claim)

    assert isinstance(ending, Nack)
    assert effects() == 0
    driver.nack(claim.worker, [ending])
    assert state(claim) is JobState.CANCELLED


def test_commit_that_breaks_after_the_completion_is_in_doubt(driver: PostgresDriver) -> None:
    """A callback that raises after the commit is no failure of a job that is completed."""

    def body(ctx: JobContext) -> None:
        transaction.on_commit(lambda: raises(ValueError("too late"))(ctx))

    claim = claimed(driver, declared(body))

    ending = performed(driver, claim)

    assert isinstance(ending, Doubtful)
    assert (effects(), state(claim)) == (1, JobState.COMPLETED)
    [answer] = driver.nack(claim.worker, [ending.nack])
    assert answer.outcome == "lost"


def test_timeout_rolls_back(driver: PostgresDriver) -> None:
    """What an attempt wrote before it was stopped is gone."""
    deadlines = Deadlines(stuck_after=60, on_stuck=lambda _: None, on_bug=lambda: None)
    deadlines.start()

    def waits(ctx: JobContext) -> None:
        with connection.cursor() as cursor:
            cursor.execute("select pg_sleep(600)")

    claim = claimed(driver, declared(waits, timeout=0.3))

    ending = performed(driver, claim, deadlines=deadlines)
    deadlines.stop(timeout=5)

    assert isinstance(ending, Nack)
    assert ending.failure is not None
    assert ending.failure.error_class == "X_ATTEMPT_TIMEOUT"
    assert effects() == 0


@pytest.mark.parametrize(
    "body",
    [
        lambda ctx: None,
        lambda ctx: transaction.on_commit(lambda: raises(ValueError("too late"))(ctx)),
    ],
    ids=["told at once", "in doubt"],
)
def test_worker_counts_what_was_committed_as_completed(driver: PostgresDriver, body: Body) -> None:
    """Nothing of it is called failed or lost."""
    declared(body).enqueue()
    worker = Worker(driver, threads=1, burst=True)

    assert worker.run()

    assert effects() == 1
    counts = worker.tally.as_dict()
    assert counts.pop("completed") == 1
    assert set(counts.values()) == {0}


def test_enqueue_with_the_memory_driver_is_refused(memory: MemoryDriver) -> None:
    """It has no transactions; nothing is stored."""
    with pytest.raises(DriverUnsupported) as refusal:
        declared(lambda ctx: None).enqueue()

    assert "atomic=True" in refusal.value.cause
    assert memory.introspection.stats() == []


def test_perform_without_a_database_fails_with_the_code(memory: MemoryDriver) -> None:
    """A job that got there all the same says what is missing."""
    declared(lambda ctx: None)
    claim = a_claim(name="atomic")

    ending = performed(memory, claim)  # type: ignore[arg-type]

    assert isinstance(ending, Nack)
    assert ending.failure is not None
    assert ending.failure.error_class == "X_DRIVER_UNSUPPORTED"


def test_completion_inside_matches_worker_and_token(driver: PostgresDriver) -> None:
    """An earlier claim completes nothing."""
    claim = claimed(driver, declared(lambda ctx: None))

    with transaction.atomic():
        late = driver.atomic.complete(claim.worker, Completion(claim.id, claim.token - 1))
        foreign = driver.atomic.complete(claim.id, Completion(claim.id, claim.token))
        mine = driver.atomic.complete(claim.worker, Completion(claim.id, claim.token, "1"))

    assert (late, foreign, mine) == (False, False, True)


def run_elsewhere(call: Callable[[], Any]) -> None:
    """Run in another session, which sees only what is committed."""
    with sessions(1) as [session]:
        session.run(call)
