"""What every file of the repository keeps to."""

from __future__ import annotations

import ast
import re

from tests.house.repository import PACKAGE, modules, shown, text_files

LONGEST = 400

# Spelt in two halves, so that this file does not hold what it looks for.
_MACHINE_PATH = re.compile(r"(?<![\w.])/(?:" + "wor" + "k|ro" + "ot|far" + "m|ho" + r"me)/")
_REGISTRY = re.compile("py" + r"pi\.org|np" + r"mjs\.|python" + r"hosted\.|debian" + r"\.org")


def test_no_file_is_over_four_hundred_lines() -> None:
    """A longer one holds a second idea."""
    long = [
        f"{shown(path)}: {lines}"
        for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.sql")])
        if "migrations" not in path.parts
        and (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST
    ]
    assert long == []


def test_every_module_says_what_it_is() -> None:
    """A module opens with one line: what it is, and what it is not."""
    silent = [
        shown(path) for path, tree in modules().items() if tree.body and not ast.get_docstring(tree)
    ]
    assert silent == []


def test_no_file_names_a_path_of_one_machine() -> None:
    """The repository works wherever it is cloned."""
    assert _found(_MACHINE_PATH) == []


def test_no_file_names_a_registry() -> None:
    """Where packages come from is the reader's choice."""
    assert _found(_REGISTRY) == []


def _found(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{shown(path)}:{number}: {line.strip()[:80]}"
        for path in text_files()
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1)
        if pattern.search(line)
    ]
