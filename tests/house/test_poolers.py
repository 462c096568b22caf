"""A transaction-mode pooler gives each transaction another server session."""

from __future__ import annotations

import ast
import re

import pytest

from tests.house.repository import PACKAGE, literal_text, modules, shown

# What outlives a transaction in the session that it was done in, and so is lost or left to others.
_OF_A_SESSION = re.compile(
    r"\bpg_(?:try_)?advisory_(?:un)?lock(?:_shared|_all)?\b"
    r"|\bdeclare\s+\w+\s+(?:\w+\s+)*cursor\b"
    r"|\bcreate\s+temp(?:orary)?\b"
    r"|^\s*(?:prepare|listen|unlisten)\s+\w"
    r"|^\s*set\s+session\b",
    re.IGNORECASE | re.MULTILINE,
)
# LISTEN has a connection and an address of its own; migrations are run on the server itself.
_DIRECT = ("migrations", "wakeups.sql")


def problems(source: str) -> list[str]:
    """Return what a text of SQL needs a session of its own for."""
    return [found.group().strip() for found in _OF_A_SESSION.finditer(source)]


def test_statements_need_no_session_of_their_own() -> None:
    """Leases are rows, and rows come in pages: nothing is locked or open between transactions."""
    texts = [(path, path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.sql"))]
    for path, tree in modules().items():
        literals = [literal_text(node) for node in ast.walk(tree)]
        texts += [(path, text) for text in literals if text and not _is_docstring(text)]

    found = [
        f"{shown(path)}: {one}"
        for path, text in texts
        if not any(part in _DIRECT for part in path.parts)
        for one in problems(text)
    ]

    assert found == []


def _is_docstring(text: str) -> bool:
    return text.rstrip().endswith(".")


def test_queries_open_no_server_side_cursor() -> None:
    """``iterator()`` reads on through a cursor that the next transaction does not have."""
    found = [
        shown(path, node)
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _opens_server_side_cursor(node)
    ]

    assert found == []


def _opens_server_side_cursor(call: ast.Call) -> bool:
    """A cursor with arguments is one with a name."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return name in ("iterator", "aiterator") or (name == "cursor" and bool(call.args))


@pytest.mark.parametrize(
    "call", ["Job.objects.all().iterator()", "rows.aiterator(chunk_size=9)", "raw.cursor('rows')"]
)
def test_search_finds_a_server_side_cursor(call: str) -> None:
    """And not every cursor."""
    found = ast.parse(call, mode="eval").body
    plain = ast.parse("connection.cursor()", mode="eval").body

    assert isinstance(found, ast.Call)
    assert isinstance(plain, ast.Call)
    assert _opens_server_side_cursor(found)
    assert not _opens_server_side_cursor(plain)


@pytest.mark.parametrize(
    "sql",
    [
        "select pg_advisory_lock(1)",
        "select pg_try_advisory_lock(1)",
        "select pg_advisory_unlock_all()",
        "declare rows no scroll cursor with hold for select 1",
        "create temp table t (n int)",
        "LISTEN x_jobs",
        "set session statement_timeout = 0",
        "  prepare p as select 1",
    ],
)
def test_search_finds_what_needs_a_session(sql: str) -> None:
    """The search itself works."""
    assert problems(f"select 1;\n{sql};\n")


@pytest.mark.parametrize(
    "sql", ["select pg_advisory_xact_lock(1)", "set local lock_timeout = 1", "update t set n = 1"]
)
def test_search_passes_what_ends_with_the_transaction(sql: str) -> None:
    """And only that."""
    assert problems(sql) == []
