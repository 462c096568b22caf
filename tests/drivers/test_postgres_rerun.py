"""A rerun request that is delivered twice, as a relay may do."""

from __future__ import annotations

import pytest

from tests.concurrency.conftest import register_worker
from tests.concurrency.requests import claim, request
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.types import ANY_TENANT, Completion, OnConflict, Written


@pytest.mark.django_db
def test_rerun_request_under_the_running_jobs_own_id_does_not_keep_it_from_ending() -> None:
    """A request delivered twice is a duplicate, and the ack of its job goes through."""
    driver = PostgresDriver("default")
    worker = register_worker(driver)
    asked = request()
    driver.enqueue([asked], on_conflict=OnConflict.RERUN)
    (claimed,) = claim(driver, worker)
    driver.enqueue([asked], on_conflict=OnConflict.RERUN)

    (answer,) = driver.ack(worker, [Completion(claimed.id, claimed.token)])

    assert answer.outcome is Written.DONE
    assert driver.introspection.events(asked.id) == []
    record = driver.introspection.get(asked.id, tenant=ANY_TENANT)
    assert record is not None
    assert record.state == "completed"
