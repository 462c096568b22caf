"""Limits in a whole worker, over a queue in memory: measured by what its bodies saw."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.test import override_settings

from ultimate_jobs import JobContext, Limiter, Retry, cancel, get, job
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.processes.worker import Worker
from ultimate_jobs.records import JobFilter, JobRecord
from ultimate_jobs.states import JobState

from .fakes import recorded_events

both_ways = pytest.mark.parametrize("avoids", [True, False], ids=["avoids", "sheds"])


class Together:
    """How many bodies run at once, in all and by a word of theirs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.order: list[int] = []

    @contextmanager
    def body(self, number: int, *words: str) -> Iterator[None]:
        with self._lock:
            self.order.append(number)
            for word in ("all", *words):
                self._now[word] = self._now.get(word, 0) + 1
                self.most[word] = max(self.most.get(word, 0), self._now[word])
        yield
        with self._lock:
            for word in ("all", *words):
                self._now[word] -= 1


@contextmanager
def settings(*, avoids: bool = True, **said: Any) -> Iterator[None]:
    with override_settings(ULTIMATE_JOBS={"CLAIM_AVOIDANCE": avoids, **said}):
        yield


def burst(driver: MemoryDriver, **options: Any) -> Worker:
    worker = Worker(driver, burst=True, **{"threads": 8, **options})
    assert worker.run()
    return worker


def records(driver: MemoryDriver) -> list[JobRecord]:
    found = driver.introspection.find(JobFilter(), limit=1000)
    return [one for one in found if isinstance(one, JobRecord)]


def declared(together: Together, pause: float = 0.01, **options: Any) -> Any:
    @job(key="{number}", name="limited", **options)
    def limited(ctx: JobContext, number: int, word: str = "") -> None:
        with together.body(number, word):
            time.sleep(pause)

    return limited


@both_ways
def test_concurrency_is_kept_and_used(avoids: bool, memory: MemoryDriver) -> None:
    """Never more than three at once, and three at some time."""
    together = Together()
    declared(together, concurrency=3).enqueue_many([{"number": n} for n in range(30)])

    with settings(avoids=avoids):
        burst(memory)

    assert together.most["all"] == 3
    assert {one.state for one in records(memory)} == {JobState.COMPLETED}
    assert {one.attempt for one in records(memory)} == {1}


@both_ways
def test_limit_is_never_left_unused_by_a_short_body(avoids: bool, memory: MemoryDriver) -> None:
    """Bodies of no length at all, one at a time: every one runs."""
    together = Together()
    declared(together, pause=0.0, concurrency=1).enqueue_many([{"number": n} for n in range(20)])

    with settings(avoids=avoids):
        burst(memory)

    assert together.most["all"] == 1
    assert len(together.order) == 20


def test_named_limiter_is_shared_by_jobs(memory: MemoryDriver) -> None:
    """Two jobs that name one limiter count together."""
    together = Together()

    def declare(name: str) -> Any:
        @job(key="{number}", name=name, limits=[Limiter("shared", global_=2)])
        def body(ctx: JobContext, number: int) -> None:
            with together.body(number):
                time.sleep(0.01)

        return body

    for name in ("first", "second"):
        declare(name).enqueue_many([{"number": n} for n in range(10)])

    burst(memory)

    assert together.most["all"] == 2
    assert len(together.order) == 20


@both_ways
def test_tenants_have_slots_of_their_own(avoids: bool, memory: MemoryDriver) -> None:
    """One for each tenant: two tenants run beside each other, two jobs of one do not."""
    together = Together()
    body = declared(together, limits=[Limiter(per_tenant=1)])
    for tenant in ("a", "b"):
        body.using(tenant=tenant).enqueue_many([{"number": n, "word": tenant} for n in range(10)])

    with settings(avoids=avoids):
        burst(memory)

    assert (together.most["a"], together.most["b"]) == (1, 1)
    assert together.most["all"] == 2


def test_keys_have_slots_of_their_own(memory: MemoryDriver) -> None:
    """One for each key."""
    together = Together()
    body = declared(together, limits=[Limiter(per_key=1, key="{word}")])
    body.enqueue_many([{"number": n, "word": f"key{n % 3}"} for n in range(30)])

    burst(memory)

    assert {together.most[f"key{n}"] for n in range(3)} == {1}
    assert together.most["all"] > 1


def test_full_key_at_the_front_hides_nobody_behind_it(memory: MemoryDriver) -> None:
    """Two hundred jobs of a key that is full do not keep another key's job from starting."""
    together, gate = Together(), threading.Event()

    @job(key="{number}", name="keyed", limits=[Limiter(per_key=1, key="{word}")])
    def keyed(ctx: JobContext, number: int, word: str) -> None:
        with together.body(number, word):
            if number == 0:
                assert gate.wait(20)
            if word == "free":
                gate.set()

    keyed.enqueue_many([{"number": n, "word": "full"} for n in range(200)])
    keyed.enqueue(number=1000, word="free")

    burst(memory)

    assert len(together.order) == 201
    assert together.order.index(1000) < 10


@both_ways
def test_queue_has_a_limit_for_all_its_jobs(avoids: bool, memory: MemoryDriver) -> None:
    """The setting bounds a queue, whatever the jobs in it say; other queues are not held up."""
    together = Together()

    @job(key="{number}", name="plain", queue="billing")
    def plain(ctx: JobContext, number: int, word: str = "billing") -> None:
        with together.body(number, word):
            time.sleep(0.01)

    with settings(avoids=avoids, QUEUES={"billing": {"concurrency": 2}}):
        plain.enqueue_many([{"number": n} for n in range(20)])
        plain.using(queue="other").enqueue_many(
            [{"number": 100 + n, "word": "other"} for n in range(20)]
        )
        burst(memory)

    assert together.most["billing"] == 2
    assert together.most["other"] > 2
    assert len(together.order) == 40


@both_ways
def test_lane_runs_in_the_order_it_was_filled(avoids: bool, memory: MemoryDriver) -> None:
    """One after the other, first come first served, whatever the priorities; lanes run beside."""
    together = Together()
    body = declared(together, pause=0.002, serial="{word}")
    for number in range(20):
        body.using(priority=number % 3).enqueue(number=number, word="a")
        body.enqueue(number=100 + number, word="b")

    with settings(avoids=avoids):
        burst(memory)

    assert [n for n in together.order if n < 100] == list(range(20))
    assert [n for n in together.order if n >= 100] == list(range(100, 120))
    assert (together.most["a"], together.most["b"]) == (1, 1)


def test_lane_waits_for_the_retry_of_its_first(memory: MemoryDriver) -> None:
    """A failure keeps its place in the line."""
    order: list[tuple[int, int]] = []

    @job(key="{number}", serial="one", retry=Retry(attempts=3, backoff="fixed", delay=0.05))
    def fails(ctx: JobContext, number: int) -> None:
        order.append((number, ctx.attempt))
        if number == 0 and ctx.attempt < 3:
            raise ValueError

    fails.enqueue_many([{"number": n} for n in range(3)])
    worker = Worker(memory, threads=4)
    thread = threading.Thread(target=worker.run)
    thread.start()
    wait_for(lambda: {one.state for one in records(memory)} == {JobState.COMPLETED})
    worker.stop()
    thread.join(20)

    assert order == [(0, 1), (0, 2), (0, 3), (1, 1), (2, 1)]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        threading.Event().wait(0.005)


def test_lanes_of_two_tenants_are_two(memory: MemoryDriver) -> None:
    """One serial key in two tenants runs beside itself."""
    together, both = Together(), threading.Barrier(2, timeout=20)

    @job(key="{number}", serial="account")
    def meets(ctx: JobContext, number: int) -> None:
        with together.body(number):
            both.wait()

    meets.using(tenant="a").enqueue(number=1)
    meets.using(tenant="b").enqueue(number=1)

    burst(memory)

    assert together.most["all"] == 2


def test_rate_is_kept_in_every_window(memory: MemoryDriver) -> None:
    """Two per 200 ms: by the clock of the claims, no window of that length has a third."""
    together = Together()
    body = declared(together, pause=0.0, limits=[Limiter(rate=2, period=0.2)])
    body.enqueue_many([{"number": n} for n in range(6)])
    worker = Worker(memory, threads=4)
    thread = threading.Thread(target=worker.run)
    thread.start()
    wait_for(lambda: {one.state for one in records(memory)} == {JobState.COMPLETED})
    worker.stop()
    thread.join(20)

    starts = sorted(one.claimed_at for one in records(memory) if one.claimed_at is not None)
    gaps = [
        (later - first).total_seconds() for first, later in zip(starts, starts[2:], strict=False)
    ]
    assert len(starts) == 6
    assert min(gaps) >= 0.199


def test_avoided_jobs_are_never_claimed_and_shed_ones_are_told(memory: MemoryDriver) -> None:
    """With avoidance the event of a shed never comes; without, each shed is one event."""
    together = Together()
    body = declared(together, pause=0.15, concurrency=1)
    body.enqueue_many([{"number": n} for n in range(2)])
    with settings(avoids=False), recorded_events() as shed:
        burst(memory)
    body.enqueue_many([{"number": n} for n in range(2)])
    with settings(avoids=True), recorded_events() as avoided:
        burst(memory)

    assert "jobs.worker.shed" in [name for name, _ in shed]
    assert "jobs.worker.shed" not in [name for name, _ in avoided]
    facts = next(facts for name, facts in shed if name == "jobs.worker.shed")
    assert facts["job"] == "limited"


def test_limited_and_unlimited_jobs_share_the_threads(memory: MemoryDriver) -> None:
    """A flood of jobs without a limit leaves a limited one its turn, and the reverse."""
    order: list[str] = []

    @job(key="{number}")
    def flood(ctx: JobContext, number: int) -> None:
        order.append("flood")
        time.sleep(0.001)

    @job(key="{number}", concurrency=1)
    def narrow(ctx: JobContext, number: int) -> None:
        order.append("narrow")
        time.sleep(0.001)

    flood.enqueue_many([{"number": n} for n in range(600)])
    narrow.enqueue_many([{"number": n} for n in range(10)])

    burst(memory, threads=2)

    assert (order.count("flood"), order.count("narrow")) == (600, 10)
    assert max(index for index, word in enumerate(order) if word == "narrow") < 500


def test_slots_are_free_when_the_worker_has_left(memory: MemoryDriver) -> None:
    """Nothing of a burst stays taken."""
    together = Together()
    declared(together, concurrency=2).enqueue_many([{"number": n} for n in range(5)])

    burst(memory)

    assert memory.slots.used(["job:limited"]) == {}


def test_failed_cancelled_and_parked_bodies_give_their_slots_back(memory: MemoryDriver) -> None:
    """However an attempt ends, the next has its slot."""
    seen: list[int] = []

    @job(key="{number}", concurrency=1, retry=Retry(attempts=1))
    def ends(ctx: JobContext, number: int) -> None:
        seen.append(number)
        if number % 2:
            raise ValueError

    ends.enqueue_many([{"number": n} for n in range(10)])

    burst(memory)

    assert sorted(seen) == list(range(10))


def test_cancelled_body_keeps_its_slot_until_it_stops(memory: MemoryDriver) -> None:
    """Asked to stop is not stopped: nobody takes its place while it runs on."""
    together, asked, gate = Together(), threading.Event(), threading.Event()

    @job(key="{number}", name="stubborn", concurrency=1)
    def stubborn(ctx: JobContext, number: int) -> None:
        with together.body(number):
            if number == 0:
                asked.set()
                assert gate.wait(20)

    first = stubborn.enqueue(number=0)
    stubborn.enqueue(number=1)
    with settings(HEARTBEAT=0.02):
        worker = Worker(memory, threads=4)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert asked.wait(20)
    cancel(first.id, tenant=None)
    wait_for(lambda: get(first.id, tenant=None).cancel_requested_at is not None)
    taken = memory.slots.used(["job:stubborn"])
    order_before = list(together.order)
    gate.set()
    wait_for(lambda: len(together.order) == 2)
    worker.stop()
    thread.join(20)

    assert (list(taken.values()), order_before) == ([1], [0])
    assert together.most["all"] == 1
    assert get(first.id, tenant=None).state is JobState.CANCELLED


def test_body_that_outlives_its_timeout_keeps_its_slot(memory: MemoryDriver) -> None:
    """Its end is written for it, and it still runs: its place is taken when the process is gone."""
    together, gate = Together(), threading.Event()

    @job(key="{number}", name="stuck", concurrency=1, timeout=0.05, retry=Retry(attempts=1))
    def stuck(ctx: JobContext, number: int) -> None:
        with together.body(number):
            while not gate.is_set():
                with suppress(BaseException):
                    gate.wait(20)

    stuck.enqueue_many([{"number": 0}, {"number": 1}])
    taken: list[int] = []

    def leave(code: int) -> None:
        taken.append(memory.slots.used(["job:stuck"]).get("job:stuck", 0))

    def note() -> None:
        taken.append(memory.slots.used(["job:stuck"]).get("job:stuck", 0))

    with settings(STUCK_AFTER=0.05, GRACE=0.2):
        worker = Worker(memory, threads=2, before_leaving=note, leave=leave)
        worker.run()
    order = list(together.order)
    gate.set()

    assert order == [0]
    assert taken[0] == 1
