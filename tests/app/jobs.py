"""Jobs that the tests run in real worker processes."""

from __future__ import annotations

import json
import os
import time

from django.db.models.functions import Now

from tests.app.models import Document, Effect
from ultimate_jobs import JobContext, Retry, job


def leave_effect(ctx: JobContext, label: str, *, seen: str = "") -> Effect:
    return Effect.objects.create(
        job_id=ctx.job_id, label=label, seen=seen, attempt=ctx.attempt, pid=os.getpid()
    )


@job(key="note:{label}", name="tests.note")
def note(ctx: JobContext, label: str) -> str:
    """Leave one effect."""
    leave_effect(ctx, label)
    return label


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
