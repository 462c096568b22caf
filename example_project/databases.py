"""DATABASE_URL chooses the database everywhere; without it, an embedded PostgreSQL starts."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import dj_database_url

from ultimate_jobs.errors import ArgumentInvalid

PROJECT = Path(__file__).resolve().parent.parent
URL_EXAMPLE = "export DATABASE_URL=postgresql://user@localhost:5432/name"


def database_url() -> str:
    """Return ``DATABASE_URL``, or the URL of the embedded server, which is started if needed.

    The server ends with the last process that asked for it; its data stays, in a folder of the
    temporary directory that belongs to this checkout and user.
    """
    given = os.environ.get("DATABASE_URL")
    if given:
        return given
    url = _embedded_url()
    # Children of this process use the same server without holding it.
    os.environ["DATABASE_URL"] = url
    return url


def _embedded_url() -> str:
    # Imported only here: whoever sets DATABASE_URL need not install the embedded server.
    try:
        from example_project import embedded_server
    except ImportError as error:
        raise ArgumentInvalid(
            argument="DATABASE_URL",
            problem=f"is not set, and the embedded PostgreSQL cannot be imported: {error}",
            fix='pip install -e ".[demo]"',
        ) from None
    return embedded_server.start(data_folder())


def data_folder() -> Path:
    """Return where the embedded server keeps its data."""
    who = getattr(os, "getuid", lambda: 0)()
    mark = hashlib.sha256(str(PROJECT).encode()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"ultimate_jobs-{who}-{mark}"
    return Path(os.environ.get("ULTIMATE_JOBS_PGDATA", folder))


def databases(*, others: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    """Return Django's DATABASES: ``default``, and one more database per alias in ``others``.

    Raises:
        ArgumentInvalid: ``DATABASE_URL`` is no URL of a PostgreSQL database.
    """
    found = {"default": _parsed(database_url())}
    for alias in others:
        other = _parsed(database_url())
        other["NAME"] = f"{other['NAME']}_{alias}"
        found[alias] = other
    return found


def _parsed(url: str) -> dict[str, Any]:
    scheme = url.partition(":")[0]
    try:
        parsed = dict(dj_database_url.parse(url))
    except ValueError:
        # The URL may hold a password, so it is not shown.
        raise _refused("cannot be read as the URL of a database") from None
    if parsed.get("ENGINE") != "django.db.backends.postgresql":
        raise _refused(f'names a "{scheme}" database, and the example runs on PostgreSQL only')
    if not parsed.get("NAME"):
        raise _refused("names no database")
    return parsed


def _refused(problem: str) -> ArgumentInvalid:
    return ArgumentInvalid(argument="DATABASE_URL", problem=problem, fix=URL_EXAMPLE)
