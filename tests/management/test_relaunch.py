"""A command starts itself again with the options that it was given, but for some."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from django.core.management.base import BaseCommand, CommandParser

from ultimate_jobs.management.commands.runjobs import Command
from ultimate_jobs.management.relaunch import command_line


def parsed(*words: str) -> dict[str, Any]:
    """Return the options as ``handle`` is given them."""
    parser: CommandParser = Command().create_parser("manage.py", "runjobs")
    return vars(parser.parse_args(list(words)))


def again(options: dict[str, Any], **changes: Any) -> list[str]:
    line = command_line(Command(), "runjobs", options, **changes)
    return line[line.index("runjobs") + 1 :]


def test_options_that_were_given_are_given_again() -> None:
    """Of every kind; what was left to its default is left to it."""
    words = [
        "--queues=a,b",
        "--queues=c",
        "--threads=3",
        "--grace=1.5",
        "--burst",
        "--database=default",
        "--settings=tests.settings",
        "--no-color",
        "--verbosity=2",
    ]

    assert sorted(again(parsed(*words))) == sorted(words)


def test_options_mean_the_same_the_second_time() -> None:
    """What the new process parses is what the first one had."""
    first = parsed("--queues=-odd", "--grace", "0.25", "--once", "--threads", "2")

    assert parsed(*again(first)) == first


def test_changes_replace_and_remove() -> None:
    """``None`` leaves an option out, and so does its default."""
    options = parsed("--processes=4", "--health=127.0.0.1:1", "--json", "--queues=a")

    line = again(options, processes=1, health=None, json=False, supervisor=7, skip_checks=True)

    assert sorted(line) == ["--processes=1", "--queues=a", "--skip-checks", "--supervisor=7"]


def test_text_from_python_is_one_value() -> None:
    """``call_command`` passes on whatever its caller gave."""
    assert again({"queues": "a,b", "threads": 2}) == ["--queues=a,b", "--threads=2"]


def test_script_and_interpreter_are_those_of_this_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Its own manage.py, with its own interpreter, does what it did here."""
    script = tmp_path / "own_manage.py"
    script.touch()
    monkeypatch.setattr(sys, "argv", [str(script), "runjobs", "--processes", "3", "--burst"])
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)

    line = command_line(Command(), "runjobs", parsed("--burst"))

    assert line[0] == sys.executable
    assert line[-3:] == [str(script), "runjobs", "--burst"]


def test_call_from_python_starts_django_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no script that would do the same again."""
    monkeypatch.setattr(sys, "argv", ["pytest", "-q"])

    line = command_line(Command(), "runjobs", parsed())

    assert line == [sys.executable, "-m", "django", "runjobs"]


def test_command_without_options_is_only_itself() -> None:
    """Any command can be started so."""

    class Bare(BaseCommand):
        """Takes what Django gives it."""

    assert command_line(Bare(), "bare", {})[-1] == "bare"
