"""Every error has a code, a page, and a fix of one line that works."""

from __future__ import annotations

import ast
import pickle
import re
import shlex
from dataclasses import fields

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import CommandParser
from django.test import override_settings

from tests.house.repository import DOCS, ROOT, docs_pages, modules, shown
from tests.house.samples import JOB_ID, SAMPLES
from ultimate_jobs import conf
from ultimate_jobs.errors import CODES, UltimateJobsError

ERRORS = DOCS / "reference" / "errors"
EXAMPLE_COMMANDS = ROOT / "example_project" / "places" / "management" / "commands"
EVERY_CODE = sorted(CODES)
# Names that begin like a code and are none.
NO_CODES = {"X_LIKE_THIS"}


def test_samples_cover_every_declared_code() -> None:
    """A class that is missing from the table of samples fails here."""
    assert sorted(SAMPLES) == EVERY_CODE


@pytest.mark.parametrize("code", EVERY_CODE)
def test_code_has_the_agreed_form(code: str) -> None:
    """A code is ``X_`` and capital words."""
    assert re.fullmatch(r"X(_[A-Z]+)+", code)


@pytest.mark.parametrize("code", EVERY_CODE)
def test_fix_and_cause_are_one_line_each(code: str) -> None:
    """Each can be printed, copied and searched for as a line."""
    error = SAMPLES[code]

    assert "\n" not in error.fix
    assert "\n" not in error.cause
    assert error.fix.strip() == error.fix != ""
    assert not error.fix.endswith(".")


@pytest.mark.parametrize("code", EVERY_CODE)
def test_error_crosses_a_process_border_as_it_is(code: str) -> None:
    """An error that was pickled says the same sentences."""
    error = SAMPLES[code]

    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert str(copy) == str(error)


@pytest.mark.parametrize("code", EVERY_CODE)
def test_page_opens_with_the_code_and_shows_the_real_message(code: str) -> None:
    """What ``error.docs`` names exists, is about this code, and its example is what is printed."""
    error = SAMPLES[code]
    page = (DOCS.parent / error.docs).read_text(encoding="utf-8")

    heading = page.splitlines()[0]
    example = re.search(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)

    assert heading == f"# {code}"
    assert example is not None
    assert example[1].strip() == str(error)
    for section in ("## When it occurs", "## Why it is refused", "## What to do"):
        assert section in page


def test_index_lists_every_page_of_a_code_and_no_other() -> None:
    """Neither a code without a page, nor a page without a code, nor one the index forgot."""
    pages = {path.stem.upper() for path in ERRORS.glob("x_*.md")}
    listed = set(re.findall(r"\(x_(\w+)\.md\)", (ERRORS / "index.md").read_text(encoding="utf-8")))

    assert sorted(pages) == EVERY_CODE
    assert sorted(f"X_{name.upper()}" for name in listed) == EVERY_CODE


def test_docs_name_only_codes_that_exist() -> None:
    """A code that was renamed or never built is not in the docs."""
    unknown = [
        f"{shown(page)}: {code}"
        for page in docs_pages()
        for code in re.findall(r"\bX(?:_[A-Z]+)+\b", page.read_text(encoding="utf-8"))
        if code not in CODES and code not in NO_CODES
    ]
    assert unknown == []


@pytest.mark.parametrize("code", EVERY_CODE)
def test_fix_that_is_a_command_parses(code: str) -> None:
    """A fix that begins with a command can be run as it stands."""
    parse_fix(SAMPLES[code].fix)


def test_every_fix_written_in_the_package_parses() -> None:
    """The same for each place that chooses its own fix, with a sample in every hole."""
    checked = 0
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "fix":
                for fix in _alternatives(node.value):
                    try:
                        parse_fix(fix)
                    except AssertionError as error:
                        raise AssertionError(f"{shown(path, node.value)}: {error}") from None
                    checked += 1
    assert checked > len(CODES) / 2


def _alternatives(node: ast.expr) -> list[str]:
    if isinstance(node, ast.IfExp):
        return [*_alternatives(node.body), *_alternatives(node.orelse)]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return ["".join(_hole(part) for part in node.values)]
    return []


def _hole(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    hole = ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else ""
    # The first holds an option, or nothing.
    return {"database": "", "alias": "default"}.get(hole, JOB_ID)


def parse_fix(fix: str) -> None:
    """Fail unless a fix that names a command is one that Django would run."""
    assert "\n" not in fix
    if "manage.py" not in fix:
        return
    words = shlex.split(fix)
    while "=" in words[0]:
        words.pop(0)
    assert words[0] == "manage.py", f"words stand before the command: {fix}"
    command, arguments = words[1], words[2:]
    if (EXAMPLE_COMMANDS / f"{command}.py").exists():
        # The example project is not installed here; CI runs its commands.
        return
    apps = get_commands()
    assert command in apps, f"there is no such command: {fix}"
    parser = load_command_class(apps[command], command).create_parser("manage.py", command)
    _refuse_to_exit(parser, fix)
    parser.parse_args(arguments)


def _refuse_to_exit(parser: CommandParser, fix: str) -> None:
    def error(message: str) -> None:
        raise AssertionError(f"{message}: {fix}")

    parser.error = error  # type: ignore[method-assign, assignment]
    for action in parser._actions:
        for choice in getattr(action, "choices", None) or ():
            inner = action.choices[choice] if isinstance(action.choices, dict) else None
            if isinstance(inner, CommandParser):
                _refuse_to_exit(inner, fix)


FLAGS = {one.name.upper() for one in fields(conf.Settings) if isinstance(one.default, bool)}


@pytest.mark.parametrize(
    ("key", "wrong"),
    [(key, object()) for key in conf.known_keys()]
    + [(key, -1) for key in conf.known_keys()]
    + [(key, True) for key in conf.known_keys() if key not in FLAGS],
)
def test_fix_of_a_wrong_setting_loads(key: str, wrong: object) -> None:
    """The line that a refused setting proposes is accepted when it is followed."""
    with override_settings(ULTIMATE_JOBS={key: wrong}), pytest.raises(UltimateJobsError) as caught:
        conf.settings()

    with override_settings(ULTIMATE_JOBS=settings_of(caught.value.fix)):
        conf.settings()


@pytest.mark.parametrize("code", EVERY_CODE)
def test_fix_that_is_a_setting_loads(code: str) -> None:
    """The same for every other error whose fix is a setting."""
    fix = SAMPLES[code].fix
    if fix.startswith("set ULTIMATE_JOBS"):
        with override_settings(ULTIMATE_JOBS=settings_of(fix)):
            conf.settings()


def settings_of(fix: str) -> dict[str, object]:
    """Return the dict that a fix tells its reader to set."""
    found = re.fullmatch(r"set ULTIMATE_JOBS = (\{.*\}) in the settings", fix)
    assert found is not None, fix
    return dict(ast.literal_eval(found[1]))
