"""A queue of its own for each test, and the command run as an operator would."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from tests.contract.harness import PostgresHarness


@dataclass(frozen=True)
class Answer:
    """What a command printed, and how it ended."""

    out: str
    err: str
    code: int

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def queue(db: None) -> Iterator[PostgresHarness]:
    """Short words for bringing jobs into a state."""
    harness = PostgresHarness()
    yield harness
    harness.close()


@pytest.fixture
def queue_for_all(transactional_db: None) -> Iterator[PostgresHarness]:
    """The same, and other processes see its jobs."""
    harness = PostgresHarness()
    yield harness
    harness.close()


@pytest.fixture
def jobs() -> Callable[..., Answer]:
    """Run ``manage.py jobs`` in this process."""
    return run


def run(*arguments: object) -> Answer:
    out, err, code = StringIO(), StringIO(), 0
    try:
        call_command("jobs", *map(str, arguments), stdout=out, stderr=err)
    except SystemExit as stop:
        code = int(stop.code or 0)
    return Answer(out.getvalue(), err.getvalue(), code)


@pytest.fixture
def newer_state(queue: PostgresHarness) -> str:
    """The id of a job whose state a newer release has written."""
    job_id = queue.enqueue().id
    with connection.cursor() as cursor:
        cursor.execute("alter table x_jobs drop constraint x_jobs_state_known")
        cursor.execute("update x_jobs set state = 'paused' where id = %s", [job_id])
    return str(job_id)
