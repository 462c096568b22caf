"""A whole worker in this process, over a queue in memory."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ultimate_jobs import ANY_TENANT, Job, JobContext, Retry, job
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.drivers.memory.claimer import MemoryClaimer
from ultimate_jobs.processes.worker import Worker
from ultimate_jobs.records import JobFilter, JobRecord
from ultimate_jobs.states import JobState

PATIENCE = 20


def declare(body: Any, name: str = "body", **options: Any) -> Job[Any, Any]:
    def run(ctx: JobContext, number: int) -> Any:
        return body(ctx, number)

    return job(key="{number}", name=name, **options)(run)


def records(driver: MemoryDriver) -> list[JobRecord]:
    found = driver.introspection.find(JobFilter(), limit=10_000)
    return [one for one in found if isinstance(one, JobRecord)]


def states(driver: MemoryDriver) -> set[JobState]:
    return {record.state for record in records(driver)}


def test_burst_runs_all_that_is_due(memory: MemoryDriver) -> None:
    """Every job once, and the worker ends by itself with its lease given back."""
    ran: list[int] = []
    body = declare(lambda ctx, number: ran.append(number))
    body.enqueue_many([{"number": number} for number in range(500)])
    worker = Worker(memory, burst=True, threads=4)

    clean = worker.run()

    assert clean
    assert sorted(ran) == list(range(500))
    assert states(memory) == {JobState.COMPLETED}
    assert worker.tally.completed == 500
    assert memory.leases.workers() == []


def test_burst_runs_what_its_bodies_enqueue(memory: MemoryDriver) -> None:
    """A child that is due belongs to the burst."""

    def body(ctx: JobContext, number: int) -> None:
        if number < 5:
            chain.enqueue(number=number + 1)

    chain = declare(body)
    chain.enqueue(number=0)

    assert Worker(memory, burst=True, threads=2).run()

    assert len(records(memory)) == 6
    assert states(memory) == {JobState.COMPLETED}


def test_burst_retries_what_is_due_at_once(memory: MemoryDriver) -> None:
    """A retry without delay is due; one with a delay is not waited for."""

    def fails(ctx: JobContext, number: int) -> None:
        if ctx.attempt == 1:
            raise ValueError("once")

    at_once = declare(fails, "at_once", retry=Retry(attempts=2, backoff="fixed", delay=0))
    later = declare(fails, "later", retry=Retry(attempts=2, backoff="fixed", delay=3600))
    at_once.enqueue(number=1)
    later.enqueue(number=1)
    worker = Worker(memory, burst=True, threads=1)

    assert worker.run()

    assert {one.name: one.state for one in records(memory)} == {
        "at_once": JobState.COMPLETED,
        "later": JobState.READY,
    }
    assert worker.tally.failed == 2


def test_worker_never_hoards_long_jobs(memory: MemoryDriver) -> None:
    """What it holds beyond its threads is nothing while it does not know how long jobs take."""
    leave, began = threading.Event(), threading.Semaphore(0)

    def body(ctx: JobContext, number: int) -> None:
        began.release()
        assert leave.wait(PATIENCE)

    declare(body).enqueue_many([{"number": number} for number in range(50)])
    worker = Worker(memory, burst=True, threads=3)
    runner = threading.Thread(target=worker.run)
    runner.start()
    for _ in range(3):
        assert began.acquire(timeout=PATIENCE)

    held = sum(one.state is JobState.RUNNING for one in records(memory))
    leave.set()
    runner.join(PATIENCE)

    assert held == 3
    assert states(memory) == {JobState.COMPLETED}


def test_worker_gives_back_what_waits_behind_a_surprise(
    memory: MemoryDriver, heard: list[tuple[str, dict[str, Any]]]
) -> None:
    """Quick jobs earned trust, then a long one came: those behind it go back uncounted."""
    leave, began = threading.Event(), threading.Event()

    def body(ctx: JobContext, number: int) -> None:
        if number == 30:
            began.set()
            assert leave.wait(PATIENCE)

    declare(body).enqueue_many([{"number": number} for number in range(60)])
    worker = Worker(memory, burst=True, threads=1)
    runner = threading.Thread(target=worker.run)
    runner.start()
    assert began.wait(PATIENCE)

    def waits_again() -> bool:
        waiting = [one for one in records(memory) if one.state is JobState.READY]
        return len(waiting) == 29 and {one.attempt for one in waiting} == {0}

    for _ in range(PATIENCE * 100):
        if waits_again():
            break
        threading.Event().wait(0.01)
    given_back = waits_again()
    leave.set()
    runner.join(PATIENCE)

    assert given_back
    assert ("waited too long") in [facts.get("reason") for _, facts in heard]
    assert states(memory) == {JobState.COMPLETED}


def test_grace_that_ends_hands_running_jobs_back_last(memory: MemoryDriver) -> None:
    """The process is left with exit code 1 right after the hand-back, and nothing in between."""
    leave, began = threading.Event(), threading.Event()
    acts: list[str] = []

    def body(ctx: JobContext, number: int) -> None:
        began.set()
        assert leave.wait(PATIENCE)

    def left(code: int) -> None:
        [record] = records(memory)
        acts.append(f"left {code} with the job {record.state} at attempt {record.attempt}")

    declare(body).enqueue(number=1)
    worker = Worker(
        memory,
        threads=1,
        grace_ms=50,
        before_leaving=lambda: acts.append(f"farewell {records(memory)[0].state}"),
        leave=left,
    )
    clean: list[bool] = []
    runner = threading.Thread(target=lambda: clean.append(worker.run()))
    runner.start()
    assert began.wait(PATIENCE)

    worker.stop()
    for _ in range(PATIENCE * 100):
        if len(acts) == 2:
            break
        threading.Event().wait(0.01)
    leave.set()
    runner.join(PATIENCE)

    assert acts == ["farewell running", "left 1 with the job ready at attempt 0"]
    assert clean == [False]


@pytest.mark.parametrize(
    ("verb", "part"),
    [("heartbeat", "heartbeat"), ("claim", "fetcher"), ("ack", "acknowledger")],
)
def test_bug_in_any_part_stops_the_worker_visibly(
    verb: str,
    part: str,
    memory: MemoryDriver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No part dies in silence: the worker says which and ends as failed."""
    declare(lambda ctx, number: None).enqueue(number=1)
    owner: Any = MemoryClaimer if verb == "claim" else memory

    def broken(*args: Any) -> Any:
        raise ZeroDivisionError("a bug in a part")

    monkeypatch.setattr(owner, verb, broken)
    codes: list[int] = []
    worker = Worker(memory, threads=1, leave=codes.append)

    clean = worker.run()

    assert not clean
    assert codes in ([], [1])
    assert f"the {part} of this worker failed" in caplog.text
    assert "ZeroDivisionError: a bug in a part" in caplog.text


def test_once_claims_at_most_a_job_per_thread(memory: MemoryDriver) -> None:
    """One claim, its bodies to their end, and no more."""
    declare(lambda ctx, number: None).enqueue_many([{"number": number} for number in range(9)])

    assert Worker(memory, once=True, threads=2).run()

    ended = [one for one in records(memory) if one.state is JobState.COMPLETED]
    assert len(ended) == 2


def test_worker_says_who_it_is(memory: MemoryDriver) -> None:
    """Screens find the names it knows, its queues, its threads and its process."""
    cards: list[Any] = []

    def body(ctx: JobContext, number: int) -> None:
        cards.extend(memory.leases.workers())

    declare(body, "body", aliases=["earlier"]).enqueue(number=1)

    Worker(memory, burst=True, threads=3, queues=("default", "other")).run()

    [card] = cards
    assert card.info["names"] == ["body", "earlier"] or card.info["names"] == ("body", "earlier")
    assert tuple(card.info["queues"]) == ("default", "other")
    assert card.info["threads"] == 3


def test_result_reaches_the_caller(memory: MemoryDriver) -> None:
    """What a body returns is what the handle's result() answers."""
    handle = declare(lambda ctx, number: {"twice": 2 * number}).enqueue(number=21)

    Worker(memory, burst=True, threads=1).run()

    assert handle.result(timeout=1) == {"twice": 42}
    assert memory.introspection.get(handle.id, tenant=ANY_TENANT) is not None
