"""The jobs that are measured: one does nothing, one inserts a row, one tells when it began."""

from __future__ import annotations

import time

from example_project.bench.models import Insertion
from ultimate_jobs import JobContext, job

QUEUE = "bench"
KEY = "{run}:{n}"


@job(key=KEY, name="bench.noop", queue=QUEUE)
def noop(ctx: JobContext, run: str, n: int) -> None:
    """Do nothing: what remains is the queue's own cost."""


@job(key=KEY, name="bench.insert", queue=QUEUE)
def insert(ctx: JobContext, run: str, n: int) -> None:
    """Insert a row with the ORM, which commits by itself before the job is acknowledged."""
    Insertion.objects.create(job_id=ctx.job_id)


@job(key=KEY, name="bench.stamp", queue=QUEUE)
def stamp(ctx: JobContext, run: str, n: int) -> float:
    """Return when the body began, by this machine's clock."""
    return time.time()


NAMES = [declared.definition.name for declared in (noop, insert, stamp)]
