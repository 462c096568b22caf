"""The statements: found by name, free of comments, each fitting the schema that is migrated."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
from django.db import connection, transaction

from ultimate_jobs import sql
from ultimate_jobs.sql import statement, statements
from ultimate_jobs.states import FINAL, LIVE, JobState

PACKAGE = Path(sql.__file__).parent
RUN = sorted(path.stem for path in PACKAGE.glob("*.sql") if path.stem != "triggers")
EVERY = [f"{noun}.{name}" for noun in RUN for name in statements(noun)]
_PARAMETER = re.compile(r"%\((\w+)\)s(?:::([a-z]+(?:\[\])?))?")
# What has no plan is run instead.
_WITHOUT_A_PLAN = {"wakeups.listen"}
_WORD = re.compile(r"'(\w+)'")


def parameters(text: str) -> dict[str, set[str]]:
    """Return each parameter with the types it is cast to."""
    found: dict[str, set[str]] = {}
    for name, cast in _PARAMETER.findall(text):
        found.setdefault(name, set()).add(cast)
    return found


def test_statement_by_noun_and_verb_is_its_text() -> None:
    """A statement is asked for by the name that stands above it."""
    assert statement("enqueue.isolation") == "select current_setting('transaction_isolation')"


@pytest.mark.parametrize("name", ["claims.nothing", "claims.", "claims", "claims.claim.more"])
def test_statement_of_an_unknown_name_is_refused(name: str) -> None:
    """A misspelt name is a mistake of this package, and is not run as an empty statement."""
    with pytest.raises(KeyError):
        statement(name)


def test_statements_with_one_name_twice_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of two would silently win."""

    class Twice:
        def joinpath(self, name: str) -> Twice:
            return self

        def read_text(self, encoding: str) -> str:
            return "-- name: claim\nselect 1;\n-- name: claim\nselect 2;\n"

    monkeypatch.setattr(sql, "files", lambda package: Twice())

    with pytest.raises(KeyError, match="claim twice"):
        statements("twice")


@pytest.mark.parametrize("name", EVERY)
def test_statement_is_sent_without_comments_and_semicolon(name: str) -> None:
    """Comments are for readers; a percent sign in one would be taken for a parameter."""
    text = statement(name)

    assert text
    assert "--" not in text
    assert not text.endswith(";")


@pytest.mark.parametrize("name", EVERY)
def test_statement_has_named_parameters_only(name: str) -> None:
    """Values are parameters, by name; every other percent sign is doubled."""
    text = statement(name)

    rest = _PARAMETER.sub("", text).replace("%%", "")

    assert "%" not in rest


@pytest.mark.parametrize("name", EVERY)
def test_statement_takes_its_time_from_one_expression(name: str) -> None:
    """There is one SQL source of now, which tests can move."""
    text = statement(name).lower()

    for other in ("now()", "current_timestamp", "clock_timestamp", "localtimestamp"):
        assert other not in text.replace("x_now()", "")


@pytest.mark.parametrize("name", EVERY)
def test_statement_writes_the_live_states_in_the_spelling_of_the_index(
    name: str,
) -> None:
    """The planner proves a partial index only from its own predicate, and a missing state loses."""
    text = " ".join(statement(name).split())

    lists = re.findall(r"state in \(([^)]*)\)", text)

    known = {"ready, delayed, running, suspended", "delayed, suspended", "ready, suspended"}
    known |= {"dead, cancelled"}
    assert {", ".join(_WORD.findall(one)) for one in lists} <= known


def test_statements_name_no_state_that_is_none() -> None:
    """A misspelt state in SQL would match nothing, for ever."""
    states = {state.value for state in JobState}
    text = " ".join(body for noun in RUN for body in statements(noun).values())

    compared = re.findall(r"\bstate (?:=|<>|in) \(?((?:'\w+'(?:, )?)+)\)?", text)
    named = {word for one in compared for word in _WORD.findall(one)}

    assert named
    assert named <= states
    assert {*LIVE} <= {JobState(word) for word in named}
    assert {*FINAL}.isdisjoint(LIVE)


@pytest.mark.django_db
@pytest.mark.parametrize("name", EVERY)
def test_statement_fits_the_migrated_schema(name: str) -> None:
    """Every table, column, function and type exists: PostgreSQL plans each statement."""
    text = statement(name)
    given = {
        one: [] if any("[]" in cast for cast in casts) else None
        for one, casts in parameters(text).items()
    }

    with transaction.atomic(), connection.cursor() as cursor:
        if name in _WITHOUT_A_PLAN:
            cursor.execute(text, given)
            return
        cursor.execute(f"explain {text}", given)
        plan = cursor.fetchall()

    assert plan


def test_every_file_of_statements_is_in_the_package() -> None:
    """The files are data of the package, and are found as such."""
    found = {
        path.name for path in files("ultimate_jobs.sql").iterdir() if path.name.endswith(".sql")
    }

    assert {f"{noun}.sql" for noun in RUN} <= found
