"""A job with a limit, and ``runjobs`` in a process that knows it."""

from __future__ import annotations

import os
import sys
import time

import django
from django.core.management import call_command

if __name__ == "__main__":
    django.setup()

from tests.app.models import Document, Effect
from ultimate_jobs import JobContext, job


@job(key="limited:{label}", name="tests.limited", concurrency=1)
def limited(ctx: JobContext, label: str, gate: str) -> None:
    """Leave an effect, and return once the gate is open."""
    Effect.objects.create(job_id=ctx.job_id, label=label, pid=os.getpid())
    while not Document.objects.filter(name=gate, version=1).exists():
        time.sleep(0.01)


if __name__ == "__main__":
    call_command("runjobs", *sys.argv[2:])
