"""Enqueues so many jobs on DATABASE_URL, for a database that the test process is not set up for."""

from __future__ import annotations

import sys

import django

if __name__ == "__main__":
    django.setup()
    from tests.app.jobs import work

    count, seconds = int(sys.argv[1]), float(sys.argv[2])
    work.enqueue_many([{"label": f"{number:05}", "seconds": seconds} for number in range(count)])
