"""A server that preloads: it enqueues, closes its connections as Django asks, and forks."""

from __future__ import annotations

import os
import sys

import django
from django.db import connections


def enqueue(label: str, count: int) -> None:
    from tests.app.jobs import noop

    for number in range(count):
        noop.enqueue(label=f"{label}:{number}")


def in_child(number: int, count: int) -> int:
    """Fork; the child enqueues, and ends with 0 if that went well."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            enqueue(f"child {number}", count)
            code = 0
        finally:
            os._exit(code)
    return pid


if __name__ == "__main__":
    django.setup()
    children, each = int(sys.argv[1]), int(sys.argv[2])
    enqueue("parent before", each)
    connections.close_all()
    pids = [in_child(number, each) for number in range(children)]
    enqueue("parent after", each)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    sys.exit(max(codes))
