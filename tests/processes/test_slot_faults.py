"""Errors between a taking and its answer, and between an end and its release: no slot is lost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.db.utils import OperationalError
from django.test import override_settings

from ultimate_jobs import JobContext, job
from ultimate_jobs.drivers import current_driver
from ultimate_jobs.processes.worker import Worker

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_registry")]

VALID = "select count(*) from x_job_leases where kind = 'slot' and expires_at > x_now()"
TIMES = 3


class Faulty:
    """The real driver; the answers of some of its slots' verbs are lost, or never asked for."""

    def __init__(self, *, before: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> None:
        self._driver = current_driver()
        self._before, self._after = before, after
        self.raised: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    @property
    def slots(self) -> Any:
        return _Slots(self, self._driver.slots)

    def call(self, name: str, act: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self._fail(name, self._before)
        answer = act(*args, **options)
        # Only an answer that tells of something is worth losing.
        if answer or name == "release":
            self._fail(name, self._after)
        return answer

    def _fail(self, name: str, names: tuple[str, ...]) -> None:
        if name in names and self.raised[name] < TIMES:
            self.raised[name] += 1
            raise OperationalError("the connection is lost, on purpose")


class _Slots:
    def __init__(self, faulty: Faulty, slots: Any) -> None:
        self._faulty = faulty
        self._slots = slots

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._slots, name)
        return lambda *args, **options: self._faulty.call(name, act, *args, **options)


@pytest.mark.parametrize(
    "lost",
    [
        {"before": ("used",)},
        {"before": ("peek",)},
        {"before": ("claim",)},
        {"after": ("claim",)},
        {"before": ("release",)},
        {"after": ("release",)},
        {"after": ("claim", "release")},
    ],
    ids=str,
)
@override_settings(ULTIMATE_JOBS={"LEASE_TTL": 600, "POLL": 0.02})
def test_lost_answers_lose_no_slot(lost: dict[str, tuple[str, ...]]) -> None:
    """With leases that outlast the test, a slot that was forgotten would stop the queue."""
    ran: list[int] = []

    @job(key="{number}", concurrency=2)
    def limited(ctx: JobContext, number: int) -> None:
        ran.append(number)
        time.sleep(0.01)

    limited.enqueue_many([{"number": number} for number in range(12)])
    driver = Faulty(**lost)

    worker = Worker(driver, burst=True, threads=4)  # type: ignore[arg-type]
    assert worker.run()

    assert sum(driver.raised.values()) >= TIMES
    assert sorted(ran) == list(range(12))
    assert worker.tally.completed == 12
    with connection.cursor() as cursor:
        cursor.execute(VALID)
        assert cursor.fetchone() == (0,)


def test_atomic_body_gives_its_slot_back() -> None:
    """Its end is written in its own transaction, past the thread that writes the others."""

    @job(key="{number}", concurrency=1, atomic=True)
    def limited(ctx: JobContext, number: int) -> None: ...

    limited.enqueue_many([{"number": number} for number in range(5)])

    worker = Worker(current_driver(), burst=True, threads=4)
    assert worker.run()

    assert worker.tally.completed == 5
