"""With --json stdout is one JSON document, also where the command was not understood."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core import checks
from django.core.management import call_command
from django.core.management.base import CommandError, SystemCheckError
from django.test import override_settings

from tests.house.test_errors import parse_fix
from ultimate_jobs.management.commands.jobs import Command as Jobs
from ultimate_jobs.management.commands.runjobs import Command as RunJobs

COMMANDS = {"jobs": Jobs, "runjobs": RunJobs}


@pytest.mark.parametrize(
    ("line", "said", "fix"),
    [
        ("jobs ls --state done --json", "'done'", "manage.py jobs ls --help"),
        ("jobs ls --limit 0 --json", "--limit: '0' is no whole", "manage.py jobs ls --help"),
        ("jobs ls --json --limit x", "--limit: 'x' is no whole", "manage.py jobs ls --help"),
        ("jobs ls --tenant A --tenantless --json", "--tenantless", "manage.py jobs ls --help"),
        ("jobs show --json", "ID", "manage.py jobs show --help"),
        ("jobs nonsense --json", "'nonsense'", "manage.py jobs --help"),
        ("jobs --json", "", "manage.py jobs --help"),
        ("runjobs --threads x --json", "--threads", "manage.py runjobs --help"),
        ("runjobs --json \x1b[31m", "\\x1b[31m", "manage.py runjobs --help"),
    ],
)
def test_misuse_is_one_document_and_exit_2(capsys, line: str, said: str, fix: str) -> None:
    """A program reads the refusal where it reads the answer."""
    argv = ["manage.py", *line.split(" ")]

    with pytest.raises(SystemExit) as stop:
        COMMANDS[argv[1]]().run_from_argv(argv)

    printed = capsys.readouterr()
    error = json.loads(printed.out)["error"]
    assert stop.value.code == 2
    assert printed.err == ""
    assert set(error) == {"code", "cause", "fix", "docs"}
    assert error["code"] == "X_ARGUMENT_INVALID"
    assert said in error["cause"]
    assert error["fix"] == fix


def test_misuse_in_text_is_the_usual_usage_message(capsys) -> None:
    """People get what every command of Django prints, and the option by its name."""
    with pytest.raises(SystemExit) as stop:
        Jobs().run_from_argv(["manage.py", "jobs", "ls", "--limit", "x"])

    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert printed.out == ""
    assert "argument --limit: 'x' is no whole number from 1 to 1000" in printed.err


def test_help_beside_json_is_still_help(capsys) -> None:
    """The fix of a misuse works as it stands."""
    with pytest.raises(SystemExit) as stop:
        Jobs().run_from_argv(["manage.py", "jobs", "ls", "--json", "--help"])

    assert stop.value.code == 0
    assert "--state" in capsys.readouterr().out


def refused_by_checks() -> dict[str, Any]:
    out = StringIO()
    with pytest.raises(SystemExit) as stop:
        call_command("runjobs", "--burst", "--json", skip_checks=False, stdout=out)
    assert stop.value.code == 1
    error: dict[str, Any] = json.loads(out.getvalue())["error"]
    parse_fix(error["fix"])
    return error


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ({"THREADS": 0}, "X_SETTING_INVALID"),
        ({"THREAD": 8}, "X_SETTING_UNKNOWN"),
        ({"DRIVER": "postgrse"}, "X_DRIVER_UNKNOWN"),
        ({"DATABASE": "lite"}, "X_DATABASE_UNSUPPORTED"),
    ],
)
def test_check_of_ours_that_fails_is_told_by_its_code(lite, setting, code: str) -> None:
    """The same refusal as where no check runs first."""
    with override_settings(ULTIMATE_JOBS=setting):
        error = refused_by_checks()

    assert error["code"] == code


@pytest.fixture
def failing_check():
    """A check of another app."""

    def fail(**_: object) -> list[checks.CheckMessage]:
        return [checks.Error("two\nlines", id="shop.E001"), checks.Warning("mild", id="shop.W1")]

    checks.register(fail)
    yield
    checks.registry.registry.registered_checks.remove(fail)


def test_check_of_others_that_fails_is_told_by_its_id(failing_check) -> None:
    """Only what stops the command is named."""
    error = refused_by_checks()

    assert error["code"] == "X_ARGUMENT_INVALID"
    assert "shop.E001: two\\nlines" in error["cause"]
    assert "shop.W1" not in error["cause"]
    assert error["fix"] == "manage.py check"


def test_check_that_fails_is_as_ever_in_text_and_with_a_traceback(failing_check) -> None:
    """Django formats its own report."""
    for options in ([], ["--json", "--traceback"]):
        with pytest.raises(SystemCheckError):
            call_command("runjobs", "--burst", *options, skip_checks=False)


def test_colours_that_contradict_are_refused_in_json(capsys, jobs) -> None:
    """Django finds this only when it runs the command, before it takes another stdout."""
    answer = jobs("ls", "--json", "--no-color", "--force-color")

    error = json.loads(capsys.readouterr().out)["error"]
    assert answer.code == 1
    assert error["code"] == "X_ARGUMENT_INVALID"
    assert error["fix"] == "manage.py jobs --help"
    with pytest.raises(CommandError):
        jobs("ls", "--no-color", "--force-color")
