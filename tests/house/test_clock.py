"""The wall clock of a machine is read in one place, and decides nothing on PostgreSQL."""

from __future__ import annotations

import ast

import pytest

from tests.house.repository import PACKAGE, modules, shown

# Who may ask: an id begins with its millisecond, and memory has no database to ask.
_READS = PACKAGE / "clock.py"
_MAY_ASK = ("clock.py", "ids.py", "drivers/memory")
_WALL = {
    "time": {"time", "time_ns", "localtime", "gmtime", "ctime"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "timezone": {"now", "localdate"},
}


def reads(tree: ast.AST) -> list[ast.AST]:
    """Return where a module asks for the time of day."""
    found: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value).rpartition(".")[2]
            found += [node] if node.attr in _WALL.get(owner, ()) else []
        elif isinstance(node, ast.ImportFrom):
            owner = (node.module or "").rpartition(".")[2]
            found += [node for one in node.names if one.name in _WALL.get(owner, ())]
    return found


def test_wall_clock_is_read_in_one_module() -> None:
    """Intervals come from a monotonic clock, moments from the database."""
    found = [
        shown(path, node)
        for path, tree in modules().items()
        if path != _READS and "migrations" not in path.parts
        for node in reads(tree)
    ]

    assert found == []
    assert reads(modules()[_READS])


def test_wall_clock_is_asked_only_where_no_database_can_be() -> None:
    """Its one reader is not used to get round that."""
    found = [
        shown(path, node)
        for path, tree in modules().items()
        if not path.relative_to(PACKAGE).as_posix().startswith(_MAY_ASK)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and "system_clock" in [one.name for one in node.names]
    ]

    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "time.time()",
        "from time import time",
        "datetime.now(UTC)",
        "datetime.datetime.utcnow()",
        "timezone.now()",
        "from django.utils.timezone import now",
        "clock = time.time",
        "date.today()",
    ],
)
def test_search_finds_each_way_to_ask(code: str) -> None:
    """The search itself works."""
    assert reads(ast.parse(code))


@pytest.mark.parametrize("code", ["time.monotonic()", "x_now()", "driver.introspection.now()"])
def test_search_passes_what_no_date_can_move(code: str) -> None:
    """And only that."""
    assert reads(ast.parse(code)) == []
