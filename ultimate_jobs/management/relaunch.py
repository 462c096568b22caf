"""How a command starts itself again as another process."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import autoreload


def command_line(
    command: BaseCommand, name: str, options: Mapping[str, Any], **changes: Any
) -> list[str]:
    """Return the command line that gives a command the options it has here, but for some.

    Args:
        name: how the command is called.
        options: what its ``handle`` was given.
        changes: other values, by destination; ``None`` leaves the option out.
    """
    parser = command.create_parser("manage.py", name)
    wanted = {**options, **changes}
    actions = [one for one in parser._actions if one.option_strings and one.dest in wanted]
    given = [word for action in actions for word in _words(action, wanted[action.dest])]
    return [*_interpreter(name), name, *given]


def _interpreter(name: str) -> list[str]:
    if name in sys.argv[1:]:
        started = [str(word) for word in autoreload.get_child_arguments()]
        return started[: len(started) - len(sys.argv[1:])]
    # Called from Python: there is no script that would do the same again.
    return [sys.executable, "-m", "django"]


def _words(action: argparse.Action, value: Any) -> Iterator[str]:
    flag = action.option_strings[-1]
    if value is None or value == action.default:
        return
    if action.nargs == 0:
        yield flag
        return
    for one in value if isinstance(value, list) else [value]:
        yield f"{flag}={one}"
