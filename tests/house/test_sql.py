"""Every statement has a name and a reason, is used, and stands in a file of its own."""

from __future__ import annotations

import ast
import re

import pytest

from tests.house.repository import PACKAGE, literal_text, modules, shown
from ultimate_jobs.sql import statements

FILES = sorted(PACKAGE.glob("sql/*.sql"))
_HEAD = re.compile(r"^-- name: (\w+)\n((?:--.*\n)*)", re.MULTILINE)
_SQL = re.compile(
    r"\b(select\s.*\sfrom|insert\s+into|update\s+\S+\s+set|delete\s+from|(create|alter|drop)\s+"
    r"(table|index|function|trigger)|set\s+(local|session)|listen\s|notify\s)",
    re.IGNORECASE | re.DOTALL,
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_opens_with_its_purpose(path) -> None:
    """The first lines say what the file is for, and whom it waits for."""
    assert path.read_text(encoding="utf-8").startswith("-- ")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_statement_has_a_name_and_says_why(path) -> None:
    """A comment stands between the name and the statement."""
    text = path.read_text(encoding="utf-8")
    named = {found[1]: found[2] for found in _HEAD.finditer(text)}

    silent = [name for name, comment in named.items() if not comment.strip("- \n")]

    assert sorted(named) == sorted(statements(path.stem))
    assert silent == [], f"{path.name} does not say why these are as they are"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_statement_is_used(path) -> None:
    """A statement that nothing runs is removed, not kept just in case."""
    names = {
        node.value
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    unused = [name for name in statements(path.stem) if f"{path.stem}.{name}" not in names]
    assert unused == []


def test_driver_runs_only_statements_that_exist() -> None:
    """A misspelt name fails here, not in a worker."""
    nouns = {path.stem for path in FILES}
    missing = [
        f"{shown(path, node)}: {node.args[0].value}"
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
        and re.fullmatch(rf"({'|'.join(nouns)})\.\w+", node.args[0].value)
        and ast.unparse(node.func).split(".")[-1] in ("rows", "statement")
        and node.args[0].value.split(".")[1] not in statements(node.args[0].value.split(".")[0])
    ]
    assert missing == []


def test_no_module_builds_sql_from_pieces() -> None:
    """SQL is text in ``sql/``; an f-string never holds it. Migrations write what they ran."""
    built = [
        shown(path, node)
        for path, tree in modules().items()
        if "migrations" not in path.parts
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr) and _SQL.search(literal_text(node) or "")
    ]
    assert built == []


def test_only_drivers_and_migrations_execute() -> None:
    """A cursor is opened where the statements are run, and nowhere else."""
    allowed = {"drivers", "migrations"}
    executing = [
        shown(path, node)
        for path, tree in modules().items()
        if not allowed & set(path.relative_to(PACKAGE).parts)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("cursor", "executemany")
    ]
    assert executing == []
