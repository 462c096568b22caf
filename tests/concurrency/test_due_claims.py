"""What waits for a time and is due is claimed in place, once, and is no duplicate of itself."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from tests.concurrency.conftest import register_worker
from tests.concurrency.requests import claim, enqueue
from tests.concurrency.sessions import Session, fetch
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.types import Nack

MINUTE_MS = 60_000

Wait = Callable[[PostgresDriver, UUID], None]


def _future_start(driver: PostgresDriver, worker: UUID) -> None:
    enqueue(driver, delay_ms=MINUTE_MS)


def _backoff(driver: PostgresDriver, worker: UUID) -> None:
    enqueue(driver)
    (claimed,) = claim(driver, worker)
    driver.nack(worker, [Nack(claimed.id, claimed.token, delay_ms=MINUTE_MS)])


def _park(driver: PostgresDriver, worker: UUID) -> None:
    enqueue(driver)
    (claimed,) = claim(driver, worker)
    parked = Nack(claimed.id, claimed.token, counts_as_attempt=False, park=True, delay_ms=MINUTE_MS)
    driver.nack(worker, [parked])


WAITS = [
    pytest.param(_future_start, id="future start"),
    pytest.param(_backoff, id="backoff"),
    pytest.param(_park, id="park"),
]


@pytest.mark.parametrize("wait", WAITS)
def test_claim_of_a_keyed_job_that_fell_due_by_two_workers_at_once_takes_it_once(
    driver: PostgresDriver, worker: UUID, pair: tuple[Session, Session], wait: Wait
) -> None:
    """Its own row holds its key; nothing is inserted, compared or thrown away when it is due."""
    first, second = pair
    wait(driver, worker)
    before = fetch("select id, idempotency_key from x_jobs")
    too_early = claim(driver, worker)
    fetch("update x_jobs set run_at = x_now(), due_at = x_now()")
    other = register_worker(driver)

    first.begin()
    taken = first.run(lambda: claim(driver, worker))
    meanwhile = second.run(lambda: claim(driver, other))
    first.commit()
    after = second.run(lambda: claim(driver, other))

    assert too_early == []
    assert [len(taken), len(meanwhile), len(after)] == [1, 0, 0]
    assert fetch("select id, idempotency_key from x_jobs") == before
    assert fetch("select state, worker from x_jobs") == [("running", worker)]
    assert enqueue(driver).id == taken[0].id
