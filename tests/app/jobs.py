"""Jobs that the tests run in real worker processes."""

from __future__ import annotations

import json
import os
import signal
import time
from contextvars import ContextVar
from typing import Any

from django.db.models.functions import Now

from tests.app import oddities
from tests.app.models import Document, Effect
from ultimate_jobs import JobContext, Retry, job

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
