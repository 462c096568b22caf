"""How commands of this package answer: text for people, JSON for programs, refusals in both."""

from __future__ import annotations

import argparse
import getpass
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from io import TextIOWrapper
from typing import Any, Literal

from django.core import checks
from django.core.management.base import (
    BaseCommand,
    CommandError,
    CommandParser,
    SystemCheckError,
)
from django.core.serializers.json import DjangoJSONEncoder
from django.db import connections

from ultimate_jobs import conf
from ultimate_jobs.drivers import driver_for
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.drivers.vendors import require_postgresql
from ultimate_jobs.errors import ArgumentInvalid, DriverUnsupported, UltimateJobsError
from ultimate_jobs.observe.plain import many_lines, one_line

REFUSED = 1
MISUSED = 2
CELL_WIDTH = 60


class AnsweringCommand(BaseCommand):
    """A command whose every refusal has a code: text on stderr, or JSON on stdout, and exit 1.

    A command line that cannot be parsed ends with exit 2: in argparse's own words, or as JSON.
    ``--traceback`` lets the exception through.
    """

    # Operators come when something is wrong: a check that fails elsewhere must not stop them.
    requires_system_checks: list[str] | tuple[str, ...] | Literal["__all__"] = ()

    def run_from_argv(self, argv: list[str]) -> None:
        for stream in (sys.stdout, sys.stderr):
            # A name that the terminal's encoding lacks is shown as an escape, not as a traceback.
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        if "--json" in argv:
            self._parse_or_refuse(argv)
        super().run_from_argv(argv)

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except UltimateJobsError as error:
            if options.get("traceback"):
                raise
            self.refuse(error, as_json=bool(options.get("json")))
            sys.exit(REFUSED)
        except CommandError as error:
            if options.get("traceback") or not options.get("json"):
                raise
            self.refuse(self._in_our_words(error), as_json=True)
            sys.exit(REFUSED)

    def refuse(self, error: UltimateJobsError, *, as_json: bool) -> None:
        """Print an error; the caller decides on the exit code."""
        if as_json:
            self.answer_json({"error": error.as_dict()})
        else:
            self.stderr.write(many_lines(error))

    def answer_json(self, data: object) -> None:
        """Print JSON; all but ASCII is escaped, so that it is inert in a terminal too."""
        self.stdout.write(json.dumps(data, cls=DjangoJSONEncoder, indent=2))

    def _parse_or_refuse(self, argv: list[str]) -> None:
        # Before Django says that this is a command line, its parser raises instead of exiting.
        parser, told = self.create_parser(argv[0], argv[1]), argparse.Namespace()
        try:
            parser.parse_args(argv[2:], told)
        except CommandError as error:
            words = ["manage.py", argv[1], getattr(told, "verb", None), "--help"]
            fix = " ".join(filter(None, words))
            self.refuse(_misused(error, fix=fix), as_json=True)
            sys.exit(MISUSED)

    def _in_our_words(self, error: CommandError) -> UltimateJobsError:
        """Return the refusal of one of our checks by its own code, and any other by its words."""
        if not isinstance(error, SystemCheckError):
            command = type(self).__module__.rpartition(".")[2]
            return _misused(error, fix=" ".join(["manage.py", command, "--help"]))
        try:
            alias = driver_for(None).alias
            if alias is not None:
                require_postgresql(alias)
        except UltimateJobsError as ours:
            return ours
        failed = [one for one in checks.run_checks() if one.is_serious() and not one.is_silenced()]
        told = "; ".join(f"{one.id}: {one.msg}" for one in failed)
        return ArgumentInvalid(
            argument="the project",
            problem=f"does not pass its system checks ({one_line(told)})",
            fix="manage.py check",
        )


def common_arguments() -> argparse.ArgumentParser:
    """Return the options of every subcommand, Django's own among them, to be given after it."""
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    common.add_argument("--json", action="store_true", help="answer in JSON")
    common.add_argument("--database", metavar="ALIAS", help="the database that holds the jobs")
    common.add_argument("--traceback", action="store_true", help=argparse.SUPPRESS)
    common.add_argument("--no-color", action="store_true", help=argparse.SUPPRESS)
    common.add_argument("--force-color", action="store_true", help=argparse.SUPPRESS)
    common.add_argument("--settings", help=argparse.SUPPRESS)
    common.add_argument("--pythonpath", help=argparse.SUPPRESS)
    common.add_argument("--verbosity", "-v", type=int, help=argparse.SUPPRESS)
    return common


def chosen_driver(alias: str | None, *, command: str) -> Driver:
    """Return the driver that ``--database`` chooses.

    Args:
        command: how the command is called, for the fix.

    Raises:
        ArgumentInvalid: the alias is none.
        DatabaseUnsupported: it is no PostgreSQL.
        DriverUnsupported: the jobs are in the memory of the process that enqueued them.
        SettingUnknown, SettingInvalid, DriverUnknown, DriverNotImplemented: see their pages.
    """
    if alias is not None and alias not in connections:
        fix = f"manage.py {command} --database {conf.settings().database}"
        known = ", ".join(sorted(connections))
        problem = f'is "{alias}", which is none of {known}'
        raise ArgumentInvalid(argument="--database", problem=problem, fix=fix)
    driver = driver_for(alias)
    if driver.alias is None:
        feature = f"{command}: its jobs live in the process that enqueued them"
        raise DriverUnsupported(driver=driver.name, feature=feature)
    require_postgresql(driver.alias)
    return driver


def operator_name() -> str:
    """Return who is at the keyboard, for the job's history."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError, ImportError):
        # A container may run as a user without a name.
        return "cli"


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows in columns; every cell is one printable line, and ``None`` is a dash."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in [headings, *cells]
    )


def add_verb(verbs: Any, name: str, act: Callable[..., None], *, help: str) -> CommandParser:  # noqa: A002
    """Add a subcommand with the common options; ``handle`` is given ``act``."""
    parser: CommandParser = verbs.add_parser(
        name, parents=[common_arguments()], help=help, description=help.capitalize() + "."
    )
    parser.set_defaults(act=act)
    return parser


def _cell(value: object) -> str:
    return "-" if value is None else one_line(value, limit=CELL_WIDTH)


def _misused(error: CommandError, *, fix: str) -> ArgumentInvalid:
    problem = "cannot be used: " + one_line(str(error).removeprefix("Error: "))
    return ArgumentInvalid(argument="the command line", problem=problem, fix=fix)
