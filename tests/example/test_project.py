"""The example project's own tests, under its own settings."""

from __future__ import annotations

from tests.example.conftest import run_python


def test_the_project_passes_its_tests(example_database: str):
    """Its jobs, its recount and its pages work where ``example_project.settings`` is loaded."""
    told = run_python(
        *("-m", "pytest", "tests/example/project", "-q", "-p", "no:cacheprovider"),
        "--ds=example_project.settings",
        DATABASE_URL=example_database,
    )

    assert told.returncode == 0, told.stdout + told.stderr
