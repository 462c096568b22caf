"""Runs ``runjobs``, or an enqueue, on a wall clock that is wrong by what a file says."""

from __future__ import annotations

import ctypes
import datetime
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django
from django.core.management import call_command


def skew(offset: Callable[[], float]) -> None:
    """Move what Python calls now, in every way it can be asked; monotonic clocks stay right."""
    right, from_timestamp = time.time, datetime.datetime.fromtimestamp

    def wrong() -> float:
        return right() + offset()

    def now(cls: type, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        return from_timestamp(wrong(), tz)

    def utcnow(cls: type) -> datetime.datetime:
        return from_timestamp(wrong(), datetime.UTC).replace(tzinfo=None)

    time.time = wrong
    time.time_ns = lambda: int(wrong() * 1e9)
    # The class itself, not a subclass of it: drivers and isinstance() know only this one.
    [attributes] = gc.get_referents(datetime.datetime.__dict__)
    attributes.update(now=classmethod(now), utcnow=classmethod(utcnow))
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime.datetime))


def enqueue(label: str, seconds: float) -> None:
    """Enqueue one job that is due at once and one due in so many seconds; print the time."""
    from tests.app.jobs import note

    note.enqueue(label=f"{label} now")
    note.using(run_after=datetime.timedelta(seconds=seconds)).enqueue(label=f"{label} later")
    print(datetime.datetime.now(datetime.UTC).timestamp())


def main(verb: str, *arguments: str) -> Any:
    *arguments_, path = arguments
    skew(lambda: float(Path(path).read_text()))
    django.setup()
    if verb == "enqueue":
        return enqueue(arguments_[0], float(arguments_[1]))
    return call_command("runjobs", *arguments_)


if __name__ == "__main__":
    main(*sys.argv[1:])
