"""A batch of retention that fails costs the batches before it nothing, nor its process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import override_settings

from tests.app.jobs import noop
from ultimate_jobs.drivers import current_driver
from ultimate_jobs.ids import first_id_at
from ultimate_jobs.processes.retention import Retention

pytestmark = pytest.mark.django_db(transaction=True)

REFUSE = """
    create function refuse_label() returns trigger language plpgsql as $$ begin
    if old.payload ->> 'label' = '3' then raise exception 'no'; end if; return old; end $$;
    create trigger refuse_label before delete on x_jobs for each row
    execute function refuse_label()
"""
ALLOW = "drop trigger refuse_label on x_jobs; drop function refuse_label()"
OLD = """
    update x_jobs set id = %s, state = 'completed', finished_at = x_now() - interval '9 days'
    where payload ->> 'label' = %s
"""


def rows(query: str, *values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values or None)
        return cursor.fetchall() if cursor.description else []


def left() -> list[str]:
    return [label for [label] in rows("select payload ->> 'label' from x_jobs order by id")]


def attempt_until(retention: Retention, labels: list[str]) -> None:
    """Take steps, waiting out each pause, until only these jobs are left."""
    for _ in range(200):
        retention.loop.attempt()
        if left() == labels:
            return
        retention.loop.wake.pause(0.02)
    raise AssertionError(left())


@override_settings(ULTIMATE_JOBS={"RETENTION": {"completed": timedelta(days=1)}})
def test_batch_that_fails_keeps_the_batches_before_it_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each batch is its own commit, and an error of the database stops no loop."""
    bugs: list[str] = []
    monkeypatch.setattr("ultimate_jobs.services.retention.BATCH", 2)
    noop.enqueue_many([{"label": f"{number}"} for number in range(6)])
    first = first_id_at(datetime.now(UTC) - timedelta(days=10)).int
    for number in range(6):
        rows(OLD, UUID(int=first + number), f"{number}")
    retention = Retention(current_driver(), on_bug=lambda: bugs.append("bug"))
    retention.step()
    rows(REFUSE)
    try:
        attempt_until(retention, ["2", "3", "4", "5"])
        retention.loop.attempt()
        failing = retention.loop.is_failing
    finally:
        rows(ALLOW)

    attempt_until(retention, [])

    assert failing
    assert bugs == []
