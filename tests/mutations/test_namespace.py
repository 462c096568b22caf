"""Breaks the key's namespace in each place where it is spelled, and expects the suite to notice."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SUITE = ("tests/contract/test_namespace.py",)


def run_suite(mutation: str, database_url: str, driver: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ULTIMATE_JOBS_MUTATION": mutation}
    # A database of its own: the mutated index must not reach the other tests.
    environment["DATABASE_URL"] = database_url.replace("?", "_mutated?")
    plugin = ("-p", "tests.mutations.plugin", "-p", "no:cacheprovider")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *SUITE, *plugin, "-q", "-x", "-k", driver],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("mutation", "driver"),
    [
        ("index", "postgres"),
        ("conflict_target", "postgres"),
        ("lookup", "postgres"),
        ("rerun", "postgres"),
        ("memory_index", "memory"),
        ("memory_lookup", "memory"),
    ],
)
def test_suite_fails_when_one_spelling_of_the_namespace_is_broken(
    database_url: str, mutation: str, driver: str
) -> None:
    """The index, the conflict target and the lookup each have a test that pins them."""
    outcome = run_suite(mutation, database_url, driver)

    assert outcome.returncode == 1, outcome.stdout[-2000:] + outcome.stderr[-2000:]
    assert " failed" in outcome.stdout


@pytest.mark.parametrize("driver", ["postgres", "memory"])
def test_suite_passes_when_nothing_is_broken(database_url: str, driver: str) -> None:
    """The failures above come from the mutation and not from the way the suite is started."""
    outcome = run_suite("nothing", database_url, driver)

    assert outcome.returncode == 0, outcome.stdout[-2000:] + outcome.stderr[-2000:]
