"""DATABASE_URL chooses the database, and what is no PostgreSQL is refused in words."""

from __future__ import annotations

import json

import pytest

from example_project.databases import databases
from tests.example.conftest import Manage
from ultimate_jobs.errors import ArgumentInvalid


def test_databases_follows_the_url(monkeypatch):
    """The default alias is what DATABASE_URL names, and others stand beside it."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://ann@db.example:6000/shop")

    found = databases(others=("other",))

    assert found["default"]["HOST"] == "db.example"
    assert found["default"]["NAME"] == "shop"
    assert found["other"]["NAME"] == "shop_other"


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////tmp/secret.db",
        "mysql://ann:secret@localhost/shop",
        "postgresql://ann:secret@localhost:port/shop",
        "postgresql://ann:secret@localhost",
        "nonsense:secret",
        "secret",
    ],
)
def test_databases_refuses_what_is_no_postgresql(monkeypatch, url):
    """The refusal names the variable, gives a line to run, and shows no password."""
    monkeypatch.setenv("DATABASE_URL", url)

    with pytest.raises(ArgumentInvalid) as refused:
        databases()

    assert "DATABASE_URL" in refused.value.cause
    assert refused.value.fix.startswith("export DATABASE_URL=postgresql://")
    assert "secret" not in str(refused.value)


def test_manage_tells_a_refused_url_in_words(manage: Manage):
    """A wrong DATABASE_URL gives the error's text and exit 1, not a traceback."""
    told = manage("demo", DATABASE_URL="sqlite:///x.db")

    assert told.returncode == 1
    assert told.stdout == ""
    assert told.stderr.startswith("X_ARGUMENT_INVALID: DATABASE_URL names a")
    assert "Traceback" not in told.stderr


def test_manage_tells_a_refused_url_as_json(manage: Manage):
    """With --json the same refusal is one object on standard output."""
    told = manage("demo", "--json", DATABASE_URL="sqlite:///x.db")

    assert told.returncode == 1
    assert json.loads(told.stdout)["error"]["code"] == "X_ARGUMENT_INVALID"


def test_demo_tells_a_database_that_does_not_answer(manage: Manage):
    """An unreachable server is X_DATABASE_UNAVAILABLE with the reason, not a traceback."""
    nobody = "postgresql://ann:secret@127.0.0.1:1/shop"

    told = manage("demo", "--json", DATABASE_URL=nobody)

    assert told.returncode == 1
    error = json.loads(told.stdout)["error"]
    assert error["code"] == "X_DATABASE_UNAVAILABLE"
    assert "secret" not in told.stdout + told.stderr
    assert "Traceback" not in told.stderr
