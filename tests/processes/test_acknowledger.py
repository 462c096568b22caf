"""Outcomes are written in batches, each until it is written or lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db.utils import DataError, IntegrityError, InterfaceError, OperationalError

from tests.processes.fakes import Answer, ScriptedDriver, Write, a_claim, a_completion
from ultimate_jobs.processes.acknowledger import MAX_BATCH, MAX_BATCH_SIZE, Acknowledger
from ultimate_jobs.processes.outcomes import Outcome
from ultimate_jobs.services import attempts
from ultimate_jobs.states import JobState
from ultimate_jobs.types import Completion, Nack, Written

Heard = list[tuple[str, dict[str, Any]]]


def an_acknowledger(driver: ScriptedDriver, **options: Any) -> Acknowledger:
    """Return one whose batches wait for nobody."""
    settings: dict[str, Any] = {
        "interval": 0.0,
        "batch": 100,
        "on_written": lambda: None,
        "on_bug": lambda: None,
    }
    return Acknowledger(driver, **{**settings, **options})  # type: ignore[arg-type]


def database_error(kind: type[Exception], cause: psycopg.Error | None = None) -> Exception:
    """Return an error as Django raises it."""
    error = kind("refused")
    error.__cause__ = cause
    return error


def flush(acknowledger: Acknowledger) -> None:
    """Write once, everything that is due or not."""
    for outcome in acknowledger._pending:
        outcome.not_before = 0.0
    acknowledger.step()


def test_step_writes_one_ack_and_one_nack_per_worker() -> None:
    """Whatever the order of arrival, a flush is one statement per verb and worker."""
    driver = ScriptedDriver()
    acknowledger = an_acknowledger(driver)
    first, second = uuid4(), uuid4()
    claims = [a_claim(worker=worker) for worker in (first, second, first, first)]
    for claim in claims[:3]:
        acknowledger.add(Outcome(claim, Completion(claim.id, claim.token)))
    acknowledger.add(Outcome(claims[3], attempts.hand_back(claims[3])))

    acknowledger.step()

    assert [(verb, worker, len(writes)) for verb, worker, writes in driver.sent] == [
        ("ack", first, 2),
        ("nack", first, 1),
        ("ack", second, 1),
    ]
    assert acknowledger.pending == 0
    assert acknowledger.tally.completed == 3
    assert acknowledger.tally.handed_back == 1


def test_step_waits_for_company_until_hurried() -> None:
    """An outcome waits for others, but not where none is coming."""
    driver = ScriptedDriver()
    acknowledger = an_acknowledger(driver, interval=60.0)
    acknowledger.add(a_completion())

    pause = acknowledger.step()

    assert driver.sent == []
    assert 0 < pause <= 60
    acknowledger.hurry()
    acknowledger.step()
    assert driver.verbs == ["ack 1"]


def test_step_with_full_batch_does_not_wait() -> None:
    """A full batch is written at once."""
    driver = ScriptedDriver()
    acknowledger = an_acknowledger(driver, interval=60.0, batch=3)
    worker = uuid4()
    for _ in range(3):
        acknowledger.add(a_completion(worker=worker))

    acknowledger.step()

    assert driver.verbs == ["ack 3"]


def test_step_cuts_batches_by_rows_and_by_size() -> None:
    """No statement grows without bound."""
    driver = ScriptedDriver()
    acknowledger = an_acknowledger(driver)
    worker = uuid4()
    for _ in range(MAX_BATCH + 1):
        acknowledger.add(a_completion(worker=worker))
    acknowledger.step()

    for _ in range(3):
        acknowledger.add(a_completion(worker=worker, payload="x" * (MAX_BATCH_SIZE // 2)))
    acknowledger.step()

    assert driver.verbs == [f"ack {MAX_BATCH}", "ack 1", "ack 2", "ack 1"]


def test_step_where_row_is_locked_writes_it_later_without_delaying_others() -> None:
    """A caller that holds a row of the batch holds up that row alone."""
    held = a_completion()
    answers = {held.claim.id: Written.BUSY}
    driver = ScriptedDriver(lambda write: answers.get(write.id, Written.DONE))
    acknowledger = an_acknowledger(driver)
    acknowledger.add(held)
    acknowledger.add(a_completion(worker=held.claim.worker))

    pause = acknowledger.step()

    assert acknowledger.tally.completed == 1
    assert acknowledger.pending == 1
    assert 0 < pause < 0.1
    answers.clear()
    flush(acknowledger)
    assert acknowledger.tally.completed == 2
    assert acknowledger.pending == 0


def test_step_where_claim_was_lost_reports_it_and_writes_nothing_else(heard: Heard) -> None:
    """A late write is refused and told with the claim it came from."""
    late = a_completion(name="tests.late", token=7)
    acknowledger = an_acknowledger(ScriptedDriver(lambda _: Written.LOST))
    acknowledger.add(late)

    acknowledger.step()

    [(name, facts)] = heard
    assert name == "jobs.claim.lost"
    assert facts["job_id"] == str(late.claim.id)
    assert facts["job"] == "tests.late"
    assert facts["worker"] == str(late.claim.worker)
    assert facts["token"] == 7
    assert acknowledger.pending == 0


@pytest.mark.parametrize(
    "error",
    [
        database_error(OperationalError),
        database_error(InterfaceError),
        database_error(OperationalError, psycopg.errors.AdminShutdown()),
        database_error(OperationalError, psycopg.errors.CannotConnectNow()),
    ],
)
def test_step_where_database_is_gone_keeps_everything(error: Exception) -> None:
    """Nothing is dropped: the loop comes again until it is written."""
    script: list[Answer] = [error]
    driver = ScriptedDriver(lambda _: script.pop() if script else Written.DONE)
    acknowledger = an_acknowledger(driver)
    worker = uuid4()
    for _ in range(2):
        acknowledger.add(a_completion(worker=worker))

    acknowledger.loop.attempt()
    kept = acknowledger.pending
    acknowledger.step()

    assert kept == 2
    assert acknowledger.pending == 0
    assert driver.verbs == ["ack 2", "ack 2"]


@pytest.mark.parametrize(
    "cause",
    [
        psycopg.errors.DeadlockDetected(),
        psycopg.errors.SerializationFailure(),
        psycopg.errors.QueryCanceled(),
        psycopg.errors.LockNotAvailable(),
    ],
)
def test_step_where_one_row_meets_a_passing_error_writes_the_others(cause: psycopg.Error) -> None:
    """One row's deadlock or timeout is its own, and passes."""
    unlucky = a_completion()
    script: dict[Any, Answer] = {unlucky.claim.id: database_error(OperationalError, cause)}
    driver = ScriptedDriver(lambda write: script.get(write.id, Written.DONE))
    acknowledger = an_acknowledger(driver)
    for outcome in (a_completion(worker=unlucky.claim.worker), unlucky):
        acknowledger.add(outcome)

    acknowledger.step()
    done_at_once = acknowledger.tally.completed
    script.clear()
    flush(acknowledger)

    assert done_at_once == 1
    assert acknowledger.tally.completed == 2
    assert driver.verbs == ["ack 2", "ack 1", "ack 1", "ack 1"]


@pytest.mark.parametrize(
    "error",
    [
        database_error(DataError, psycopg.errors.UntranslatableCharacter()),
        database_error(DataError),
        database_error(IntegrityError, psycopg.errors.CheckViolation()),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
    ],
)
def test_step_where_database_refuses_a_result_ends_that_job_dead(error: Exception) -> None:
    """Poison ends its own job, with the reason, and no other."""
    poison = a_completion()

    def script(write: Write) -> Answer:
        is_poison = write.id == poison.claim.id and isinstance(write, Completion)
        return error if is_poison else Written.DONE

    driver = ScriptedDriver(script)
    acknowledger = an_acknowledger(driver)
    for outcome in (a_completion(worker=poison.claim.worker), poison):
        acknowledger.add(outcome)

    acknowledger.step()
    acknowledger.step()

    assert acknowledger.pending == 0
    assert acknowledger.tally.completed == 1
    assert acknowledger.tally.dead == 1
    [nack] = driver.sent[-1][2]
    assert isinstance(nack, Nack)
    assert nack.dead_letter
    assert nack.failure is not None
    assert nack.failure.error_class == "X_RESULT_INVALID"


def test_step_where_even_the_substitute_is_refused_tries_on(heard: Heard) -> None:
    """What cannot be written at all is told each time, and never dropped in silence."""
    driver = ScriptedDriver(lambda _: database_error(DataError))
    acknowledger = an_acknowledger(driver)
    acknowledger.add(a_completion())

    acknowledger.step()
    acknowledger.step()

    assert acknowledger.pending == 1
    assert [name for name, _ in heard] == ["jobs.worker.database_error"]


@pytest.mark.parametrize(
    ("found", "lost"),
    [
        ({"state": JobState.COMPLETED, "token": 1, "lost_leases": 0, "retry_count": 0}, 0),
        ({"state": JobState.RUNNING, "token": 2, "lost_leases": 1, "retry_count": 0}, 1),
        ({"state": JobState.READY, "token": 1, "lost_leases": 1, "retry_count": 0}, 1),
        ({"state": JobState.READY, "token": 1, "lost_leases": 0, "retry_count": 1}, 1),
        (None, 1),
    ],
)
def test_step_after_broken_connection_tells_its_own_commit_from_a_loss(
    found: dict[str, Any] | None, lost: int
) -> None:
    """A commit whose answer was lost with the connection is no lost claim."""
    outcome = a_completion()
    script: list[Answer] = [Written.LOST, database_error(OperationalError)]
    driver = ScriptedDriver(lambda _: script.pop())
    driver.stored[outcome.claim.id] = SimpleNamespace(**found) if found else None
    acknowledger = an_acknowledger(driver)
    acknowledger.add(outcome)

    acknowledger.loop.attempt()
    acknowledger.step()

    assert acknowledger.tally.lost == lost
    assert acknowledger.tally.completed == 1 - lost


def test_pending_size_follows_what_is_held() -> None:
    """The bound on memory counts what is there, and forgets what was written."""
    acknowledger = an_acknowledger(ScriptedDriver())
    outcome = a_completion(payload="x" * 1000)
    outcome = Outcome(outcome.claim, outcome.write._replace(result="y" * 500))
    acknowledger.add(outcome)

    held = acknowledger.pending_size
    acknowledger.step()

    assert held == 1500
    assert acknowledger.pending_size == 0
