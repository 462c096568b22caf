"""Databases of their own for tests that run the example project in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from example_project.databases import PROJECT, database_url

Manage = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def example_database() -> Iterator[str]:
    """The URL of an empty database beside the suite's own, removed afterwards."""
    server = urlsplit(database_url())
    name = f"example_{uuid4().hex[:12]}"
    with psycopg.connect(urlunsplit(server), autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        yield urlunsplit(server._replace(path=f"/{name}"))
        drop = sql.SQL("drop database {} with (force)").format(sql.Identifier(name))
        connection.execute(drop)


@pytest.fixture
def manage(example_database: str) -> Manage:
    """Run ``manage.py`` of the example project on the database of its own."""
    return lambda *words, **environment: run_python(
        "manage.py", *words, **{"DATABASE_URL": example_database, **environment}
    )


def run_python(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run this Python in the repository, with the settings of the example project."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=PROJECT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "example_project.settings", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
