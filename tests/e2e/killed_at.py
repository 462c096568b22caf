"""Runs ``runjobs`` in a process that kills itself at a named point: before or after a commit."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import django
from django.core.management import call_command


def die(*_: Any, **__: Any) -> None:
    """End this process as a crash would: nothing is flushed, closed or given back."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_before(owner: Any, name: str) -> None:
    setattr(owner, name, die)


def die_after(owner: Any, name: str, *, when: Callable[[Any], bool] = lambda _: True) -> None:
    """Die once the method has returned something that counts."""
    method = getattr(owner, name)

    def dying(*args: Any, **kwargs: Any) -> Any:
        answer = method(*args, **kwargs)
        if when(answer):
            die()
        return answer

    setattr(owner, name, dying)


def wrote(answers: Any) -> bool:
    """Whether a write changed a row: the rehearsal at the start does not."""
    return any(answer.outcome == "done" for answer in answers)


def arm(point: str) -> None:
    from ultimate_jobs.drivers.postgres import PostgresDriver
    from ultimate_jobs.drivers.postgres.claims import PostgresClaimer
    from ultimate_jobs.drivers.postgres.endings import PostgresAtomic
    from ultimate_jobs.drivers.postgres.leases import PostgresLeases
    from ultimate_jobs.processes.acknowledger import Acknowledger
    from ultimate_jobs.processes.executor import Executor

    if point == "lease taken":
        die_after(PostgresLeases, "register")
    elif point == "claimed":
        die_after(PostgresClaimer, "claim", when=bool)
    elif point == "body ended":
        die_after(Executor, "perform")
    elif point == "atomic body ended":
        die_before(PostgresAtomic, "complete")
    elif point == "completed, not committed":
        die_after(PostgresAtomic, "complete")
    elif point == "committed, not told":
        die_after(Executor, "_perform_atomically")
    elif point == "outcome collected":
        die_after(Acknowledger, "_collect")
    elif point == "acknowledged":
        die_after(PostgresDriver, "ack", when=wrote)
    elif point == "rescued":
        die_after(PostgresLeases, "rescue", when=bool)
    elif point == "handed back":
        stop_at_body(Executor, 8)
        die_after(PostgresDriver, "nack", when=wrote)
    elif point == "lease released":
        stop_at_body(Executor, 8)
        die_after(PostgresLeases, "release")
    else:
        raise ValueError(point)


def stop_at_body(executor: Any, number: int) -> None:
    """Ask the worker to stop when it knows its jobs and holds some that have not begun."""
    perform, count = executor.perform, itertools.count(1)

    def performing(*args: Any, **kwargs: Any) -> Any:
        if next(count) == number:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.2)
        return perform(*args, **kwargs)

    executor.perform = performing


if __name__ == "__main__":
    django.setup()
    *arguments, at = sys.argv[2:]
    arm(at)
    call_command("runjobs", *arguments)
