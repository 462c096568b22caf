"""The reference pages list what the code declares, no more and no less."""

from __future__ import annotations

import ast
import re
from dataclasses import fields

from tests.house.repository import DOCS, PACKAGE, modules, shown
from ultimate_jobs import conf
from ultimate_jobs.events import EVENTS
from ultimate_jobs.services.options import EnqueueOptions
from ultimate_jobs.states import BackfillStatus, JobState, StepStatus

REFERENCE = DOCS / "reference"


def test_settings_page_lists_every_key_with_its_default() -> None:
    """The table of settings is what ``conf`` reads."""
    documented = {
        row[0].strip("`"): (row[1], row[2]) for row in table_rows("settings.md", columns=4)
    }
    assert documented == {
        _key(field.name): (_kind(field.name, str(field.type)), _shown(field.name, field.default))
        for field in fields(conf.Settings)
    }
    assert sorted(documented) == conf.known_keys()


def _key(attribute: str) -> str:
    return attribute.removesuffix("_ms").upper()


def _kind(attribute: str, kind: str) -> str:
    if attribute.endswith("_ms"):
        return "duration"
    kinds = {"str": "text", "int": "whole number", "bool": "true or false"}
    kinds["bool | str | None"] = "true, false or text"
    kinds["tuple[str, ...]"] = "list of text"
    return {**kinds, "RetentionOptions": "dict", "Mapping[str, QueueOptions]": "dict"}[kind]


def _shown(attribute: str, default: object) -> str:
    if attribute in ("queues", "retention"):
        return {"queues": "`{}`", "retention": "[below](#retention)"}[attribute]
    if attribute.endswith("_ms"):
        return f"`{int(str(default)) / 1000:g}`"
    return f'`"{default}"`' if isinstance(default, str) else f"`{default}`"


def test_events_page_lists_every_event() -> None:
    """A name that a log, an alarm or a dashboard can see is written down."""
    documented = {row[0].strip("`") for row in table_rows("events.md", columns=4)}
    assert documented == set(EVENTS)


def test_every_event_is_emitted_somewhere() -> None:
    """An event that nothing emits is removed."""
    emitted = [
        _pattern(node.args[0])
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).split(".")[-1] == "emit"
        and node.args
    ]
    silent = [name for name in EVENTS if not any(re.fullmatch(one, name) for one in emitted)]
    assert silent == []


def _pattern(name: ast.expr) -> str:
    if isinstance(name, ast.JoinedStr):
        return "".join(_pattern(part) for part in name.values)
    return re.escape(str(name.value)) if isinstance(name, ast.Constant) else r"\w+"


def test_only_declared_events_are_emitted() -> None:
    """A misspelt event fails here, not in a worker."""
    unknown = [
        f"{shown(path, node)}: {node.args[0].value}"
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).split(".")[-1] == "emit"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value not in EVENTS
    ]
    assert unknown == []


def test_states_page_lists_every_state() -> None:
    """Each stored state of jobs, steps and backfills has its line."""
    documented = [row[0].strip("`") for row in table_rows("states.md", columns=3)]
    assert documented == [
        state.value for states in (JobState, StepStatus, BackfillStatus) for state in states
    ]


def test_job_options_page_lists_every_option_of_using() -> None:
    """What ``using()`` takes is on the page."""
    page = (REFERENCE / "job-options.md").read_text(encoding="utf-8")
    section = page.split("## Options of an enqueue", 1)[1].split("\n## ", 1)[0]
    assert set(re.findall(r"^\| `(\w+)` ", section, re.MULTILINE)) == set(
        EnqueueOptions.__dataclass_fields__
    )


def test_commands_page_describes_every_command() -> None:
    """Each command has a section, and each section a command."""
    page = (REFERENCE / "commands.md").read_text(encoding="utf-8")
    commands = {
        path.stem
        for path in (PACKAGE / "management" / "commands").glob("*.py")
        if not path.stem.startswith("_")
    }
    assert set(re.findall(r"^## manage\.py (\w+)$", page, re.MULTILINE)) == commands


def table_rows(name: str, *, columns: int) -> list[list[str]]:
    """Return the body rows of a page's tables that have this many columns."""
    rows: list[list[str]] = []
    in_body = False
    for line in (REFERENCE / name).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            in_body = False
        elif all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            in_body = True
        elif in_body and len(cells) == columns:
            rows.append(cells)
    return rows
