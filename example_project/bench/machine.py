"""What was measured on: processors, load, versions and the settings that decide about commits."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

import django
import psutil
import psycopg
from django.db import connection

import ultimate_jobs
from example_project.bench.server import query

SETTINGS = ("synchronous_commit", "fsync", "shared_buffers", "max_wal_size", "autovacuum")


def describe_machine() -> dict[str, Any]:
    """Return the facts without which a figure says nothing; no name and no address."""
    return {
        "cpus": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_average": load_average(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": sys.version.split()[0],
        "django": django.get_version(),
        "psycopg": f"{psycopg.__version__} {psycopg.pq.__impl__}",
        "ultimate_jobs": ultimate_jobs.__version__,
        "postgresql": query("show server_version")[0],
        "reached_by": "TCP" if connection.connection.info.hostaddr else "socket",
        **{name: query("select current_setting(%s)", [name])[0] for name in SETTINGS},
    }


def load_average() -> list[float]:
    """Return the load of the last 1, 5 and 15 minutes; above ``cpus`` the machine is not idle."""
    return [round(value, 2) for value in psutil.getloadavg()]
