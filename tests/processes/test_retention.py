"""The retention of a site: one process at a time, a batch a step, a line a sweep."""

from __future__ import annotations

import threading
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import override_settings

from tests.contract.harness import MemoryHarness
from ultimate_jobs import JobContext, job
from ultimate_jobs.clock import to_datetime
from ultimate_jobs.conf import DAY_MS
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.ids import first_id_at
from ultimate_jobs.processes.retention import DUTY, DUTY_TTL, INTERVAL, WALK, Retention
from ultimate_jobs.processes.worker import Worker
from ultimate_jobs.states import JobState
from ultimate_jobs.types import EnqueueRequest

HOUR_MS = 3_600_000
Heard = list[tuple[str, dict[str, Any]]]


class Site(MemoryHarness):
    """A site whose jobs get ids of the time at which the harness stands."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def request(self, **fields: Any) -> EnqueueRequest:
        self._count += 1
        moment = to_datetime(round(self.now_ms()))
        return super().request(**{"id": UUID(int=first_id_at(moment).int + self._count), **fields})

    def process(self) -> Retention:
        """Return the retention of one more process, past its first wait."""
        retention = Retention(self.driver, on_bug=lambda: None)
        retention.step()
        return retention


@pytest.fixture
def site() -> Site:
    return Site()


def sweep(retention: Retention) -> int:
    """Take the steps of one sweep; return how many there were."""
    for steps in range(1, 1000):
        if retention.step() > 1:
            return steps
    raise AssertionError("the sweep has no end")


def test_first_step_only_waits(site: Site) -> None:
    """A worker that lives for a moment neither takes the duty nor looks at a row."""
    retention = Retention(site.driver, on_bug=lambda: None)

    pause = retention.step()

    assert 30 <= pause <= 90
    assert site.driver.leases.take_duty(DUTY, uuid4(), ttl_ms=1)


def test_sweep_removes_what_is_old_and_says_so_once(site: Site, heard: Heard) -> None:
    """All batches of a sweep are one line of the log, and one that removes nothing is none."""
    old = site.job_in(JobState.DEAD)
    site.advance(80 * DAY_MS)
    for _ in range(2500):
        site.job_in(JobState.COMPLETED)
    site.advance(15 * DAY_MS)
    young = site.job_in(JobState.COMPLETED)
    retention = site.process()

    steps = sweep(retention)
    sweep(retention)

    assert steps >= 3
    assert {one.id for one in site.find()} == {young}
    assert site.events(old) == []
    assert heard == [
        ("jobs.pruned", {"completed": 2500, "cancelled": 0, "dead": 1, "events": 1, "steps": 0})
    ]


def test_sweep_ends_with_a_long_pause(site: Site) -> None:
    """Between two sweeps a process costs nothing, and processes do not sweep together."""
    retention = site.process()

    while (pause := retention.step()) <= 1:
        pass

    assert INTERVAL * 0.8 <= pause <= INTERVAL * 1.2


def test_sweep_of_a_second_process_does_nothing(site: Site, heard: Heard) -> None:
    """While the first lives the whole site has one that prunes."""
    first, second = site.process(), site.process()
    sweep(first)
    site.job_in(JobState.COMPLETED)
    for _ in range(15 * 24 * 6):
        site.advance(600_000)
        if site.now_ms() % DAY_MS < 600_000:
            sweep(first)
        else:
            site.driver.leases.take_duty(DUTY, first._holder, ttl_ms=round(DUTY_TTL * 1000))

    taken = second.step()

    assert taken > 1
    assert [facts["completed"] for name, facts in heard if name == "jobs.pruned"] == [1]


def test_duty_of_a_process_that_died_is_taken_over(site: Site) -> None:
    """Within its time to live, and the other one begins a day back, not at the first row."""
    first, second = site.process(), site.process()
    job_id = site.job_in(JobState.COMPLETED)
    site.advance(14 * DAY_MS - HOUR_MS)
    sweep(first)
    site.advance(3 * HOUR_MS)

    sweep(second)

    assert site.driver.introspection.get(job_id, tenant=None) is None


def test_whole_table_is_walked_once_a_day_by_one_process(site: Site) -> None:
    """What ended long after its enqueue is found then, whoever looks."""
    first = site.process()
    slow = site.enqueue(delay_ms=60 * DAY_MS).id
    site.advance(60 * DAY_MS + 1)
    site.complete(site.claim_one())
    site.advance(13 * DAY_MS)
    sweep(first)
    site.advance(DAY_MS + HOUR_MS)

    assert not is_gone(site, slow)
    sweep(first)
    assert is_gone(site, slow)
    assert not site.driver.leases.take_duty(WALK, uuid4(), ttl_ms=1)


def test_sweeps_of_one_day_walk_the_whole_table_once(site: Site) -> None:
    """The oldest rows, which are kept longest, are not read again every five minutes."""
    looked: list[UUID] = []
    prune = site.driver.retention.prune
    site.driver.retention.prune = lambda keep, **where: (  # type: ignore[method-assign]
        looked.append(where["after"]) or prune(keep, **where)
    )
    retention = site.process()

    for _ in range(100):
        sweep(retention)
        site.advance(300_000)

    assert sum(after == UUID(int=0) for after in looked) == 1


def test_duty_that_is_lost_in_a_sweep_ends_it(site: Site) -> None:
    """A process that stood still for long does not go on beside the one that took over."""
    for _ in range(1500):
        site.job_in(JobState.COMPLETED)
    site.advance(15 * DAY_MS)
    first = site.process()
    assert first.step() <= 1
    site.advance(round(DUTY_TTL * 1000) + 1)
    assert site.driver.leases.take_duty(DUTY, uuid4(), ttl_ms=DAY_MS)
    first._renewed_at = float("-inf")

    assert first.step() > 1
    assert site.find() != []


def test_retention_that_is_switched_off_looks_at_nothing(site: Site, heard: Heard) -> None:
    """Three Nones, and everything is kept for ever."""
    job_id = site.job_in(JobState.COMPLETED)
    site.advance(5000 * DAY_MS)
    keep = dict.fromkeys(("completed", "cancelled", "dead"))

    with override_settings(ULTIMATE_JOBS={"RETENTION": keep}):
        sweep(site.process())

    assert not is_gone(site, job_id)
    assert heard == []


def test_every_worker_takes_part(memory: MemoryDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs jobs keeps the tables from growing for ever."""
    stepped = threading.Event()
    monkeypatch.setattr(Retention, "step", lambda self: stepped.set() or 60.0)

    @job(key="{n}", name="tests.waits")
    def waits(ctx: JobContext, n: int) -> None:
        assert stepped.wait(20)

    waits.enqueue(n=1)
    worker = Worker(memory, burst=True, threads=1)

    assert worker.run()
    assert worker.tally.completed == 1


def is_gone(site: Site, job_id: UUID) -> bool:
    return site.driver.introspection.get(job_id, tenant=None) is None
