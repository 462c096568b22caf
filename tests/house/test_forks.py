"""No process of ours is a fork of one that has connections or threads."""

from __future__ import annotations

import ast

import pytest

from tests.house.repository import modules, shown

_FORKS = {"fork", "forkpty", "register_at_fork"}
_POOLS = {"multiprocessing", "ProcessPoolExecutor"}


def forks(tree: ast.AST) -> list[ast.AST]:
    """Return where a module forks, or uses what does."""
    found: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _FORKS | _POOLS:
            found.append(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = {one.name.partition(".")[0] for one in node.names}
            source = (getattr(node, "module", None) or "").partition(".")[0]
            if (names | {source}) & (_FORKS | _POOLS):
                found.append(node)
    return found


def test_package_never_forks() -> None:
    """Worker processes are fresh interpreters, however long their parent has lived."""
    assert [shown(path, node) for path, tree in modules().items() for node in forks(tree)] == []


@pytest.mark.parametrize(
    "code",
    [
        "os.fork()",
        "from os import fork",
        "import multiprocessing",
        "from multiprocessing import get_context",
        "from multiprocessing.pool import Pool",
        "from concurrent.futures import ProcessPoolExecutor",
        "futures.ProcessPoolExecutor(4)",
    ],
)
def test_search_finds_each_way_to_fork(code: str) -> None:
    """The search itself works."""
    assert forks(ast.parse(code))


@pytest.mark.parametrize("code", ["import subprocess", "subprocess.Popen(['x'])"])
def test_search_passes_a_fresh_interpreter(code: str) -> None:
    """And only that."""
    assert forks(ast.parse(code)) == []
