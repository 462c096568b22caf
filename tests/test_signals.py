"""The signals of a worker: what receivers are told, when, and that they break nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction
from django.dispatch import Signal

from tests.processes.fakes import a_claim
from ultimate_jobs import ANY_TENANT, JobContext, Retry, get, job
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.processes.crew import Run
from ultimate_jobs.processes.executor import Executor
from ultimate_jobs.processes.worker import Worker
from ultimate_jobs.signals import job_dead, job_failed, job_started
from ultimate_jobs.types import Completion


@contextmanager
def received(signal: Signal, *, sender: Any = None) -> Iterator[list[dict[str, Any]]]:
    heard: list[dict[str, Any]] = []

    def hear(**facts: Any) -> None:
        heard.append(facts)

    signal.connect(hear, sender=sender)
    try:
        yield heard
    finally:
        signal.disconnect(hear, sender=sender)


def fails(attempts: int) -> Any:
    @job(
        key="k:{secret}",
        name="fails",
        retry=Retry(attempts=attempts, backoff="fixed", delay=0),
    )
    def body(ctx: JobContext, secret: str) -> None:
        raise ValueError(secret)

    return body


@pytest.mark.django_db(transaction=True)
def test_failed_and_dead_are_told_after_their_commit(own_registry: None) -> None:
    """A receiver that looks finds the job as it is told."""
    seen: list[str] = []
    handle = fails(attempts=2).enqueue(secret="hush")

    def look(job_id: Any, will_retry: bool, **_: Any) -> None:
        seen.append(get(job_id, tenant=ANY_TENANT).state)

    job_failed.connect(look)
    try:
        with received(job_failed) as failed, received(job_dead) as dead:
            Worker(PostgresDriver("default"), threads=1, burst=True).run()
            Worker(PostgresDriver("default"), threads=1, burst=True).run()
    finally:
        job_failed.disconnect(look)

    assert [(one["attempt"], one["will_retry"]) for one in failed] == [(1, True), (2, False)]
    assert [one["job_id"] for one in dead] == [handle.id]
    assert seen[-1] == "dead"
    assert {one["error_class"] for one in [*failed, *dead]} == {"ValueError"}
    assert "hush" not in str([*failed, *dead])


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_started_is_told_before_the_body(own_registry: None, is_async: bool) -> None:
    """Its sender is the job's function, so a receiver can ask for one job."""
    order: list[str] = []

    if is_async:

        @job(key="x", name="body")
        async def body(ctx: JobContext) -> None:
            order.append("body")
    else:

        @job(key="x", name="body")
        def body(ctx: JobContext) -> None:
            order.append("body")

    def hear(**facts: Any) -> None:
        order.append("started")

    job_started.connect(hear, sender=body.__wrapped__)
    try:
        perform(is_async)
    finally:
        job_started.disconnect(hear, sender=body.__wrapped__)

    assert order == ["started", "body"]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1)])
def test_receiver_that_raises_changes_nothing(
    own_registry: None, is_async: bool, error: BaseException
) -> None:
    """The body runs and completes all the same."""

    async def ok(ctx: JobContext) -> None: ...

    def also_ok(ctx: JobContext) -> None: ...

    job(key="x", name="body")(ok if is_async else also_ok)

    def hear(**facts: Any) -> None:
        raise error

    job_started.connect(hear)
    try:
        assert isinstance(perform(is_async), Completion)
    finally:
        job_started.disconnect(hear)


@pytest.mark.django_db(transaction=True)
def test_receiver_that_leaves_a_transaction_open_does_not_hold_up_the_worker(
    own_registry: None,
) -> None:
    """The thread that writes goes on with a clean connection."""
    failing = fails(attempts=1)
    failing.enqueue_many([{"secret": "a"}, {"secret": "b"}])

    def leave_open(**_: Any) -> None:
        transaction.atomic().__enter__()

    job_failed.connect(leave_open)
    try:
        Worker(PostgresDriver("default"), threads=1, burst=True).run()
    finally:
        job_failed.disconnect(leave_open)

    with connection.cursor() as cursor:
        cursor.execute("select state, count(*) from x_jobs group by state")
        assert cursor.fetchall() == [("dead", 2)]


def perform(is_async: bool) -> Any:
    executor = Executor(stands=lambda _: True, max_result_bytes=1000)
    claim = a_claim(name="body")
    run = Run(claim, JobContext(claim), received=0.0)
    return asyncio.run(executor.perform_async(run)) if is_async else executor.perform(run)
