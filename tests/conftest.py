"""What every test may use: a registry of its own, and the database URL for child processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connections

from ultimate_jobs.registry import isolated_registry


@pytest.fixture
def own_registry() -> Iterator[None]:
    """Declare jobs without touching what jobs.py declared."""
    with isolated_registry():
        yield


@pytest.fixture
def database_url(transactional_db: None) -> str:
    """The URL of the test database, for processes that a test starts."""
    return url_of("default")


@pytest.fixture
def lite(db: None) -> Iterator[str]:
    """One more alias, onto a database that is no PostgreSQL."""
    blank = {**connections.settings["default"], "HOST": "", "PORT": "", "USER": "", "PASSWORD": ""}
    engine = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:", "OPTIONS": {}}
    connections.settings["lite"] = {**blank, **engine}
    # The test's own guard allows the aliases that it knew at its start.
    connections["lite"].connect()
    yield "lite"
    connections["lite"].close()
    del connections["lite"]
    del connections.settings["lite"]


def url_of(alias: str) -> str:
    """Return a libpq URL of the database that an alias is connected to."""
    settings = connections[alias].settings_dict
    host = settings["HOST"] or settings["OPTIONS"].get("host", "")
    port = f"&port={settings['PORT']}" if settings["PORT"] else ""
    password = f":{settings['PASSWORD']}" if settings["PASSWORD"] else ""
    user = settings["USER"] or "postgres"
    return f"postgresql://{user}{password}@/{settings['NAME']}?host={host}{port}"
