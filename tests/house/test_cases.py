"""The page of cases covers each of them once, by tests that exist."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

from tests.house.repository import DOCS, ROOT

PAGE = DOCS / "explanation" / "cases.md"

# Every case of each kind; the page has them in this order.
CASES = {
    "Idempotency": "R002 R004 R007 R009 R012 R013",
    "Claims": "R016 R018 R019",
    "Leases": "R020 R021 R023 R025 R031 R033 R034 R035 R036 R037",
    "Retries": "R041 R043 R044 R046 R047",
    "Limits": "R124 R126 R128 R131 R132 R135 R137 R138",
    "Cancel": "R139 R140 R141",
    "Shutdown": "R146 R148 R150",
    "Connections": "R152 R154 R156 R160 R161 R163",
    "Serialization": "R164 R165 R167 R170 R171 R173 R174",
    "Clocks": "R216 R217 R221 R222",
    "Performance": "R228 R229 R230 R231 R232",
    "Memory": "R234 R235",
    "Forks and threads": "R238 R239 R242",
    "Transactions": "R245 R246 R248 R251",
}

_ROW = re.compile(
    r"^\| \[(?P<case>R\d{3})\]\(https://github\.com/\S+\) \| (?P<fault>[^|]+) \| (?P<tests>.+) \|$"
)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_RULED_OUT = "Ruled out: "


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Yield section, case, fault and tests of each row of the page."""
    section = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        if found := _ROW.match(line):
            yield section, found["case"], found["fault"], found["tests"]


def test_page_has_every_case_of_every_kind_once() -> None:
    """None is left out, none is there twice, and each stands under its own kind."""
    listed: dict[str, list[str]] = {}
    for section, case, _, _ in rows():
        listed.setdefault(section, []).append(case)

    assert listed == {kind: cases.split() for kind, cases in CASES.items()}
    everything = Counter(case for cases in listed.values() for case in cases)
    assert [case for case, count in everything.items() if count > 1] == []


def test_page_has_no_line_that_only_looks_like_a_case() -> None:
    """A row that the other tests cannot read would not be checked by them."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()

    assert [line for line in lines if re.match(r"\|.*R\d{3}", line) and not _ROW.match(line)] == []


def test_every_case_names_a_test_or_why_it_cannot_occur() -> None:
    """A sentence alone is only for what the design rules out."""
    bare = [
        case
        for _, case, _, tests in rows()
        if not _TEST.search(tests) and not tests.startswith(_RULED_OUT)
    ]

    assert bare == []


def test_every_test_that_the_page_names_exists() -> None:
    """A renamed or deleted test takes its row with it."""
    missing = [
        f"{case}: {path}::{name}"
        for _, case, _, tests in rows()
        for path, name in _TEST.findall(tests)
        if name not in names_in(path)
    ]

    assert missing == []


def test_every_name_of_a_test_on_the_page_can_be_read() -> None:
    """What is spelt another way would not be looked for."""
    unread = [
        f"{case}: {tests}"
        for _, case, _, tests in rows()
        if len(_TEST.findall(tests)) != tests.count("::")
    ]

    assert unread == []


@cache
def names_in(path: str) -> frozenset[str]:
    """Return the names of a module's test functions; a parametrized one has one name."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    return frozenset(
        node.name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    )
