"""Jobs that the tests run in real worker processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.db.models.functions import Now

from tests.app import oddities
from tests.app.models import Document, Effect
from ultimate_jobs import JobContext, Limiter, Retry, RetryLater, job

LEFT_BEHIND: ContextVar[str] = ContextVar("left_behind")


def leave_effect(ctx: JobContext, label: str, *, seen: str = "") -> Effect:
    return Effect.objects.create(
        job_id=ctx.job_id, label=label, seen=seen, attempt=ctx.attempt, pid=os.getpid()
    )


@job(key="note:{label}", name="tests.note")
def note(ctx: JobContext, label: str) -> str:
    """Leave one effect."""
    leave_effect(ctx, label)
    return label


@job(key="noop:{label}", name="tests.noop")
def noop(ctx: JobContext, label: str) -> None:
    """Do nothing, to measure everything else."""


@job(key="slow:{label}", name="tests.slow")
def slow(ctx: JobContext, label: str, seconds: float) -> None:
    """Leave an effect when it starts, and complete it when it ends."""
    effect = leave_effect(ctx, label)
    time.sleep(seconds)
    Effect.objects.filter(pk=effect.pk).update(finished_at=Now())


@job(
    key="one-of:{label}",
    name="tests.one_of_ten",
    concurrency=10,
    limits=[Limiter("tests.single", global_=1)],
)
def one_of_ten(ctx: JobContext, label: str, seconds: float) -> None:
    """Run beside no other of its limiter, though ten might by its own concurrency."""
    slow(ctx, label, seconds)


@job(key="few:{label}", name="tests.four_at_once", concurrency=4)
def four_at_once(ctx: JobContext, label: str, seconds: float) -> list[float]:
    """Run with three others at most, and tell from when to when."""
    began = time.time()
    time.sleep(seconds)
    return [began, time.time()]


@job(key="measured:{label}", name="tests.measured", concurrency=5)
def measured(ctx: JobContext, label: str, seconds: float) -> None:
    """Run with four others at most, and write down from when to when."""
    # By this machine's clock: before the body has a connection, which takes a while to open.
    began = datetime.now(UTC)
    effect = Effect.objects.create(
        job_id=ctx.job_id, label=label, attempt=ctx.attempt, pid=os.getpid(), started_at=began
    )
    time.sleep(seconds)
    Effect.objects.filter(pk=effect.pk).update(finished_at=Now())


@job(key="lane:{label}", name="tests.in_lane", serial="account:{account}")
def in_lane(ctx: JobContext, label: str, account: int, seconds: float = 0.0) -> None:
    """Run after those of its account that came before."""
    slow(ctx, label, seconds)


@job(key="flaky:{label}", name="tests.flaky", retry=Retry(attempts=3, backoff="fixed", delay=0.01))
def flaky(ctx: JobContext, label: str, failures: int) -> None:
    """Fail this often, then leave an effect."""
    if ctx.attempt <= failures:
        raise ValueError(f"attempt {ctx.attempt} of {label} fails")
    leave_effect(ctx, label)


@job(key="read:{name}", name="tests.read_document")
def read_document(ctx: JobContext, name: str) -> int:
    """Leave an effect that says which version of the document it saw."""
    version = Document.objects.get(name=name).version
    leave_effect(ctx, name, seen=str(version))
    return version


@job(key="docs:{name}", name="tests.read_documents")
def read_documents(ctx: JobContext, name: str) -> None:
    """Leave an effect that says which version of each caller's document it saw."""
    rows = Document.objects.filter(name__startswith=f"{name}/").values_list("name", "version")
    seen = {full.rsplit("/", 1)[1]: version for full, version in rows}
    leave_effect(ctx, name, seen=json.dumps(seen))


@job(key="work:{label}", name="tests.work")
def work(ctx: JobContext, label: str, seconds: float = 0.0) -> int:
    """Take this long, then leave an effect; the result is the process it ran in."""
    time.sleep(seconds)
    leave_effect(ctx, label)
    return os.getpid()


@job(key="burn:{label}", name="tests.burn")
def burn(ctx: JobContext, label: str, seconds: float) -> None:
    """Keep the interpreter busy in pure Python."""
    leave_effect(ctx, label)
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        sum(range(1000))


@job(key="gated:{label}", name="tests.gated")
def gated(ctx: JobContext, label: str, gate: str, checks: bool = False) -> int:
    """Leave an effect, return once the gate is open; with ``checks``, look for interruptions."""
    leave_effect(ctx, label)
    while not Document.objects.filter(name=gate, version=1).exists():
        if checks:
            ctx.check()
        time.sleep(0.01)
    if checks:
        ctx.check()
    return os.getpid()


@job(key="stubborn:{label}", name="tests.stubborn")
def stubborn(ctx: JobContext, label: str) -> str:
    """Swallow the interruption and return as if nothing had been."""
    leave_effect(ctx, label)
    while True:
        try:
            ctx.check()
        except BaseException:
            leave_effect(ctx, f"{label} swallowed")
            return "completed all the same"
        time.sleep(0.01)


@job(key="gated_failure:{label}", name="tests.gated_failure", retry=Retry(attempts=1))
def gated_failure(ctx: JobContext, label: str, gate: str) -> None:
    """Fail once the gate is open."""
    gated(ctx, label, gate)
    raise ValueError(f"{label} fails")


@job(key="swallows:{label}", name="tests.swallows")
def swallows(ctx: JobContext, label: str, how: str, gate: str) -> int:
    """Wait for a gate, swallow what interrupts the wait, and return as if nothing had been."""
    if how == "except BaseException: pass":
        try:
            gated(ctx, label, gate, checks=True)
        except BaseException:
            leave_effect(ctx, f"{label} swallowed")
        return os.getpid()
    try:
        gated(ctx, label, gate, checks=True)
        label = f"{label} passed"
    finally:
        leave_effect(ctx, f"{label} swallowed")
        return os.getpid()  # noqa: B012


@job(key="poison:{label}", name="tests.poison", retry=Retry(attempts=3, backoff="fixed", delay=0))
def poison(ctx: JobContext, label: str) -> None:
    """Fail always."""
    leave_effect(ctx, label)
    raise ValueError(f"attempt {ctx.attempt} of {label} fails")


@job(key="suicide:{label}", name="tests.suicide")
def suicide(ctx: JobContext, label: str) -> None:
    """Kill the process it runs in."""
    leave_effect(ctx, label)
    os.kill(os.getpid(), signal.SIGKILL)


@job(key="odd:{what}", name="tests.odd", retry=Retry(attempts=1))
def odd(ctx: JobContext, what: str) -> Any:
    """Do one of the things that have brought workers down."""
    leave_effect(ctx, what)
    return oddities.do(what)


@job(key="asynchronous:{label}", name="tests.asynchronous")
async def asynchronous(ctx: JobContext, label: str) -> str:
    """Leave an effect through the async ORM."""
    await Effect.objects.acreate(job_id=ctx.job_id, label=label, pid=os.getpid())
    return label


@job(key="leaves:{label}", name="tests.leaves")
def leaves(ctx: JobContext, label: str) -> str:
    """Answer what an earlier body left behind in this thread, and leave it anew."""
    found = LEFT_BEHIND.get("nothing")
    LEFT_BEHIND.set(label)
    return found


@job(
    key="once:{label}",
    name="tests.once",
    atomic=True,
    retry=Retry(attempts=3, backoff="fixed", delay=0.01),
)
def once(ctx: JobContext, label: str, seconds: float = 0.0) -> int:
    """Leave an effect in the transaction that completes the job."""
    leave_effect(ctx, label)
    time.sleep(seconds)
    return os.getpid()


@job(key="gated_once:{label}", name="tests.gated_once", atomic=True)
def gated_once(ctx: JobContext, label: str, gate: str) -> None:
    """Leave an effect in the job's transaction, and commit once the gate is open."""
    leave_effect(ctx, label)
    while not Document.objects.filter(name=gate, version=1).exists():
        time.sleep(0.01)


@job(
    key="overlong:{label}",
    name="tests.overlong",
    timeout=0.5,
    retry=Retry(attempts=2, backoff="fixed", delay=0.01),
)
def overlong(ctx: JobContext, label: str, how: str) -> str:
    """Run longer than the timeout, in one of the ways in which a body can."""
    leave_effect(ctx, label)
    try:
        if how == "query":
            with connection.cursor() as cursor:
                cursor.execute("select pg_sleep(600)")
        elif how == "compute":
            while True:
                sum(range(1000))
        elif how == "hang":
            # One call that no exception reaches.
            time.sleep(600)
        elif how == "swallow":
            while True:
                time.sleep(0.01)
    except BaseException:
        if how != "swallow":
            raise
    return "completed all the same"


@job(key="patient:{label}", name="tests.patient")
async def patient(ctx: JobContext, label: str, seconds: float) -> None:
    """Leave an effect and wait without a thread."""
    await Effect.objects.acreate(job_id=ctx.job_id, label=label, pid=os.getpid())
    await asyncio.sleep(seconds)


@job(key="later:{label}", name="tests.later")
def later(ctx: JobContext, label: str, times: int) -> None:
    """Ask to come again this often, then leave an effect."""
    if Effect.objects.filter(job_id=ctx.job_id).count() < times:
        leave_effect(ctx, f"{label} later")
        raise RetryLater(delay=0.01, reason="not yet")
    leave_effect(ctx, label)
