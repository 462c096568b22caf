"""The list of differences: it is whole, it is true, and nothing is skipped beside it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from .differences import DIFFERENCES, why_skipped

HERE = Path(__file__).parent

SAMPLE = """
import pytest

@pytest.fixture(params=["memory", "postgres"])
def driver(request):
    return request.param

def test_passes(driver):
    assert driver

def test_listed(driver):
    if driver == "postgres":
        pytest.skip("listed")

def test_listed_for_the_other_driver(driver):
    if driver == "memory":
        pytest.skip("not for this one")

def test_skips_itself(driver):
    pytest.skip("too lazy")

@pytest.mark.skip(reason="flaky")
def test_marked():
    pass

@pytest.mark.skipif(True, reason="never")
def test_marked_if(driver):
    pass

@pytest.mark.xfail(reason="known")
def test_expected_to_fail(driver):
    assert False

def test_without_a_fixture():
    pytest.importorskip("no_such_module_at_all")
"""

SAMPLE_DIFFERENCES = """
def why_skipped(test, driver):
    listed = {
        ("test_listed", "postgres"),
        ("test_listed_for_the_other_driver", "postgres"),
    }
    return "listed" if (test, driver) in listed else None
"""


def _run(folder: Path, **files: str) -> str:
    """Run pytest over a package that holds these modules and our hooks; return its report."""
    package = folder / "sample"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "skips.py").write_text((HERE / "skips.py").read_text())
    (package / "differences.py").write_text(SAMPLE_DIFFERENCES)
    (package / "conftest.py").write_text("from .skips import *\n")
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rA",
        "-p",
        "no:django",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return f"{done.stdout}\n{done.stderr}\nexit {done.returncode}"


def test_skip_outside_the_list_fails(tmp_path: Path) -> None:
    """However a test is skipped, it fails unless the list has it for that very driver."""
    report = _run(tmp_path, test_sample=SAMPLE)

    failed = {
        line.split("::")[1].split(" ")[0]
        for line in report.splitlines()
        if line.startswith(("FAILED ", "ERROR "))
    }
    assert failed == {
        "test_listed_for_the_other_driver[memory]",
        "test_skips_itself[memory]",
        "test_skips_itself[postgres]",
        "test_marked",
        "test_marked_if[memory]",
        "test_marked_if[postgres]",
        "test_expected_to_fail[memory]",
        "test_expected_to_fail[postgres]",
        "test_without_a_fixture",
    }
    assert "4 passed, 1 skipped" in report
    assert "exit 1" in report


def test_skip_of_a_whole_module_fails(tmp_path: Path) -> None:
    """A module that skips itself is no smaller suite: it is an error."""
    skipped = 'import pytest\npytest.skip("not today", allow_module_level=True)\n'

    report = _run(tmp_path, test_gone=skipped)

    assert "differences.py does not list it" in report
    assert "exit 2" in report


def test_list_of_differences_names_tests_that_exist() -> None:
    """An entry whose test is gone is an entry too many; each pair stands there once, with why."""
    tests = {
        node.name
        for module in HERE.glob("test_*.py")
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.FunctionDef)
    }

    pairs = [(difference.test, difference.driver) for difference in DIFFERENCES]

    assert {test for test, _ in pairs} <= tests
    assert {driver for _, driver in pairs} <= {"memory", "postgres"}
    assert len({test for test, _ in pairs}) == len(pairs)
    assert all(why_skipped(*pair) for pair in pairs)
