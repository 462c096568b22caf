"""manage.py jobs: which database it asks, and what it says when that does not answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from django.db import connection, connections
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from tests.house.repository import ROOT
from ultimate_jobs.drivers import use_driver
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.errors import JobNotFound

NOBODY = "0198c2f4-7a10-7e51-9a52-3f8f2f6c1d20"


@pytest.mark.django_db(databases=["default", "other"])
@pytest.mark.parametrize("verb", [("ls",), ("stats",), ("show", NOBODY), ("cancel", NOBODY)])
def test_database_option_asks_that_alias_and_no_other(jobs, verb: tuple[str, ...]) -> None:
    """``--database`` is where every statement goes."""
    with (
        CaptureQueriesContext(connections["other"]) as asked,
        CaptureQueriesContext(connection) as not_asked,
    ):
        jobs(*verb, "--database", "other", "--json")

    assert len(asked) > 0
    assert len(not_asked) == 0


def test_database_option_of_no_alias_is_refused(jobs) -> None:
    """The aliases that there are stand in the answer."""
    answer = jobs("ls", "--database", "elsewhere", "--json")

    assert answer.code == 1
    assert answer.data["error"]["code"] == "X_ARGUMENT_INVALID"
    assert "default, other" in answer.data["error"]["cause"]
    assert answer.data["error"]["fix"] == "manage.py jobs ls --database default"


@pytest.mark.parametrize("verb", [("ls",), ("stats",), ("show", NOBODY), ("cancel", NOBODY)])
@pytest.mark.parametrize("option", [(), ("--database", "default")])
def test_memory_driver_is_refused(jobs, verb: tuple[str, ...], option: tuple[str, ...]) -> None:
    """This process's memory holds nothing, and "no job matches" would be believed."""
    use_driver(MemoryDriver())
    try:
        answer = jobs(*verb, *option, "--json")
    finally:
        use_driver(None)

    assert answer.code == 1
    assert answer.data["error"]["code"] == "X_DRIVER_UNSUPPORTED"


@pytest.mark.parametrize(
    "verb",
    [("ls",), ("stats",), ("show", NOBODY), ("cancel", NOBODY), ("retry", NOBODY)],
)
@pytest.mark.parametrize("is_named", [False, True])
def test_database_that_is_no_postgresql_is_refused(
    jobs, lite: str, verb: tuple[str, ...], is_named: bool
) -> None:
    """By the setting or by ``--database``: before a statement that it would not understand."""
    option = ("--database", lite) if is_named else ()

    with override_settings(ULTIMATE_JOBS={} if is_named else {"DATABASE": lite}):
        answer = jobs(*verb, *option, "--json")

    assert answer.code == 1
    assert answer.data["error"]["code"] == "X_DATABASE_UNSUPPORTED"
    assert answer.data["error"]["fix"] == (
        'set ULTIMATE_JOBS = {"DATABASE": "default"} in the settings'
    )


@override_settings(ULTIMATE_JOBS={"DRIVER": "redis"})
def test_driver_that_is_not_built_is_refused(jobs) -> None:
    """A wrong setting is an answer with a code, not a traceback."""
    answer = jobs("ls", "--json")

    assert answer.code == 1
    assert answer.data["error"]["code"] == "X_DRIVER_NOT_IMPLEMENTED"


def test_table_that_is_missing_is_refused(queue, jobs) -> None:
    """The fix is the migration."""
    with connection.cursor() as cursor:
        cursor.execute("alter table x_jobs rename to x_jobs_elsewhere")

    answer = jobs("ls", "--json")

    assert answer.code == 1
    assert answer.data["error"]["code"] == "X_JOBS_SCHEMA"
    assert answer.data["error"]["fix"] == "manage.py migrate ultimate_jobs"


def test_traceback_option_lets_the_exception_through(queue, jobs) -> None:
    """Who debugs sees where it came from."""
    with pytest.raises(JobNotFound):
        jobs("show", NOBODY, "--traceback")


def shell(url: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    ours = {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    return subprocess.run(
        [sys.executable, "-m", "django", "jobs", *arguments],
        cwd=ROOT,
        env={**os.environ, **ours, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_exit_codes_of_a_real_process_are_0_1_and_2(database_url: str) -> None:
    """Done, refused, and not understood, told apart by scripts."""
    done = shell(database_url, "ls", "--json", "--settings", "tests.settings")
    refused = shell(database_url, "show", NOBODY)
    misused = shell(database_url, "ls", "--limit", "many")

    assert (done.returncode, refused.returncode, misused.returncode) == (0, 1, 2)
    assert json.loads(done.stdout) == {"jobs": [], "next_before": None}
    assert refused.stderr.startswith("X_JOB_NOT_FOUND")
    assert "Traceback" not in refused.stderr + misused.stderr


def test_terminal_that_lacks_a_character_shows_its_escape(queue_for_all, database_url) -> None:
    """A name in another script ends no command."""
    queue_for_all.enqueue(name="jobs.größe")

    ended = shell(database_url, "ls", PYTHONIOENCODING="ascii")

    assert ended.returncode == 0
    assert "jobs.gr\\xf6\\xdfe" in ended.stdout


@pytest.mark.parametrize("verb", [("ls",), ("show", NOBODY), ("stats",), ("retry", NOBODY)])
def test_database_that_does_not_answer_is_refused_in_json(verb: tuple[str, ...]) -> None:
    """No traceback, whichever statement came first."""
    ended = shell("postgresql://nobody@127.0.0.1:1/nowhere", *verb, "--json")

    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    answer = json.loads(ended.stdout)
    error = answer["error"] if "error" in answer else answer["refused"][0]["error"]
    assert error["code"] == "X_DATABASE_UNAVAILABLE"
