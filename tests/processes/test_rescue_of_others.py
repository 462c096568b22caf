"""A worker rescues what it could never run itself, and gives it no other end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.test import override_settings

from tests.app.jobs import note
from ultimate_jobs import events
from ultimate_jobs.drivers import current_driver
from ultimate_jobs.processes.worker import Worker

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = 20


def rows(query: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def stopped_at(worker: Worker, event: str) -> Iterator[None]:
    """Stop the worker at an event, or when patience ends."""

    def hear(name: str, facts: dict[str, Any]) -> None:
        if name == event:
            worker.stop()

    patience = threading.Timer(PATIENCE, worker.stop)
    patience.start()
    events.subscribe(hear)
    try:
        yield
    finally:
        events.unsubscribe(hear)
        patience.cancel()


@override_settings(ULTIMATE_JOBS={"RESCUE_INTERVAL": 0.05})
def test_worker_of_another_queue_that_knows_no_such_name_makes_a_lost_job_ready() -> None:
    """Its name may belong to another part of the deployment; only attempts and losses end it."""
    note.using(queue="reports").enqueue(label="lost")
    rows(
        "update x_jobs set name = 'tests.of_another_service', state = 'running', attempt = 1,"
        " token = 1, worker = gen_random_uuid(), claimed_at = x_now()"
    )
    worker = Worker(current_driver(), queues=("mail",), threads=1)

    with stopped_at(worker, "jobs.rescued"):
        assert worker.run()

    assert rows("select name, state, attempt, lost_leases, token, worker from x_jobs") == [
        ("tests.of_another_service", "ready", 0, 1, 1, None)
    ]
    assert rows("select type from x_job_events") == [("rescued",)]
