"""The registry: one name, one job; a module that is imported again replaces only itself."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ultimate_jobs import Retry
from ultimate_jobs.declare import describe, job
from ultimate_jobs.errors import JobNameTaken, JobUnknown
from ultimate_jobs.registry import (
    JobDefinition,
    declared_jobs,
    declared_names,
    find_job,
    isolated_registry,
)

pytestmark = pytest.mark.usefixtures("own_registry")

Importer = Callable[[str, str], ModuleType]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Importer:
    """Write a module that can be imported, and import it."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, source: str) -> ModuleType:
        path = tmp_path / f"{name}.py"
        path.write_text(f"from ultimate_jobs import job\n{source}")
        importlib.invalidate_caches()
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    return write


def test_find_job_returns_what_was_declared() -> None:
    """A worker gets the very function that stands in the module."""

    @job(key="x", name="tests.one")
    def one(ctx: Any) -> int:
        return 1

    found = find_job("tests.one")

    assert found is one.definition
    assert found.func(None) == 1


def test_find_job_of_an_unknown_name_lists_the_known_ones() -> None:
    """A misspelt name on the command line is seen at once."""

    @job(key="x", name="tests.one")
    def one(ctx: Any) -> None: ...

    with pytest.raises(JobUnknown) as caught:
        find_job("tests.two")

    assert '"tests.two"' in caught.value.cause
    assert "tests.one" in caught.value.cause


def test_find_job_without_any_declared_says_none() -> None:
    """An empty registry is told, not shown as an empty list."""
    with pytest.raises(JobUnknown) as caught:
        find_job("tests.two")

    assert "declared: none" in caught.value.cause


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "tests.app.jobs.leave_effect"])
def test_find_job_never_imports_a_name(name: str) -> None:
    """Whoever can write a row chooses among the declared jobs, and among nothing else."""
    with pytest.raises(JobUnknown):
        find_job(name)


def test_find_job_by_an_alias_returns_the_same_declaration() -> None:
    """What an older release enqueued under the earlier name still runs here."""

    @job(key="x", name="tests.new", aliases=["tests.old", "tests.older"])
    def new(ctx: Any) -> None: ...

    assert find_job("tests.old") is find_job("tests.older") is find_job("tests.new")
    assert find_job("tests.old").name == "tests.new"


def test_declared_names_hold_aliases_and_declared_jobs_do_not() -> None:
    """A worker claims every name it can run; a list shows each job once."""

    @job(key="x", name="tests.b", aliases=["tests.z"])
    def second(ctx: Any) -> None: ...

    @job(key="x", name="tests.a")
    def first(ctx: Any) -> None: ...

    assert declared_names() == ("tests.a", "tests.b", "tests.z")
    assert [one.name for one in declared_jobs()] == ["tests.a", "tests.b"]
    assert [one["name"] for one in describe()] == ["tests.a", "tests.b"]


def test_declare_with_a_taken_name_is_refused_and_changes_nothing() -> None:
    """Two functions never share a name; both places are told, and the first stays."""

    @job(key="x", name="tests.one")
    def one(ctx: Any) -> None: ...

    with pytest.raises(JobNameTaken) as caught:

        @job(key="x", name="tests.one")
        def two(ctx: Any) -> None: ...

    assert "one" in caught.value.cause
    assert "<locals>.two" in caught.value.cause
    assert find_job("tests.one") is one.definition


@pytest.mark.parametrize(
    ("name", "aliases"),
    [("tests.new", ["tests.one"]), ("tests.former", []), ("tests.new", ["tests.former"])],
)
def test_declare_with_an_alias_that_is_taken_is_refused(name: str, aliases: list[str]) -> None:
    """An alias is a name like any other, on either side."""

    @job(key="x", name="tests.one", aliases=["tests.former"])
    def one(ctx: Any) -> None: ...

    with pytest.raises(JobNameTaken):

        @job(key="x", name=name, aliases=aliases)
        def two(ctx: Any) -> None: ...

    assert declared_names() == ("tests.former", "tests.one")


def test_declare_twice_in_one_module_under_one_name_is_refused(module: Importer) -> None:
    """A copied function whose name was left is two jobs, of which one would silently be lost."""
    source = "@job(key='a')\ndef send(ctx): ...\n@job(key='b')\ndef send(ctx): ...\n"

    with pytest.raises(JobNameTaken) as caught:
        module("uj_copied", source)

    assert "uj_copied:send" in caught.value.cause


def test_declare_by_a_factory_under_one_name_is_refused() -> None:
    """Functions of one place can differ in what they close over."""

    def declare() -> None:
        @job(key="x")
        def one(ctx: Any) -> None: ...

    declare()

    with pytest.raises(JobNameTaken):
        declare()


def test_declare_in_a_factory_under_different_names_is_taken() -> None:
    """One place may declare many jobs, as long as each has its name."""

    def declare(name: str) -> None:
        @job(key="x", name=name)
        def body(ctx: Any) -> str:
            return name

    declare("tests.a")
    declare("tests.b")

    assert [find_job(name).func(None) for name in ("tests.a", "tests.b")] == ["tests.a", "tests.b"]


def test_import_of_a_module_again_replaces_its_own_declaration(module: Importer) -> None:
    """An autoreloader imports a changed module anew, and the newest code runs."""
    module("uj_again", "@job(key='a')\ndef send(ctx): return 1\n")
    again = module("uj_again", "# moved\n\n@job(key='b')\ndef send(ctx): return 2\n")

    assert find_job("uj_again.send") is again.send.definition
    assert find_job("uj_again.send").func(None) == 2


def test_reload_of_a_module_replaces_its_own_declaration(module: Importer, tmp_path: Path) -> None:
    """``importlib.reload`` keeps the module object and is an import all the same."""
    first = module("uj_reloaded", "@job(key='a')\ndef send(ctx): return 1\n")
    before = find_job("uj_reloaded.send")

    importlib.reload(first)

    assert find_job("uj_reloaded.send") is not before
    assert find_job("uj_reloaded.send") is first.send.definition


def test_import_again_without_an_alias_forgets_it(module: Importer) -> None:
    """A name that the code no longer has is not claimed any more."""
    module("uj_alias", "@job(key='a', aliases=['uj_alias.old'])\ndef send(ctx): ...\n")
    module("uj_alias", "@job(key='a')\ndef send(ctx): ...\n")

    assert declared_names() == ("uj_alias.send",)


def test_import_of_another_module_with_the_name_is_refused(module: Importer) -> None:
    """Only the same place may replace a declaration."""
    module("uj_first", "@job(key='a', name='shared')\ndef send(ctx): ...\n")

    with pytest.raises(JobNameTaken) as caught:
        module("uj_second", "@job(key='a', name='shared')\ndef send(ctx): ...\n")

    assert "uj_first:send" in caught.value.cause
    assert "uj_second:send" in caught.value.cause


def test_isolated_registry_gives_back_what_was_declared() -> None:
    """A test neither sees nor leaves declarations."""

    @job(key="x", name="tests.outer")
    def outer(ctx: Any) -> None: ...

    with isolated_registry():
        before = declared_names()

        @job(key="x", name="tests.inner")
        def inner(ctx: Any) -> None: ...

        during = declared_names()

    assert (before, during) == ((), ("tests.inner",))
    assert declared_names() == ("tests.outer",)


def test_isolated_registry_that_is_left_by_an_error_gives_back_too() -> None:
    """A failing test spoils no other."""

    @job(key="x", name="tests.outer")
    def outer(ctx: Any) -> None: ...

    with pytest.raises(ZeroDivisionError), isolated_registry():
        raise ZeroDivisionError

    assert declared_names() == ("tests.outer",)


def test_describe_tells_the_public_facts_and_nothing_else() -> None:
    """Neither the key nor an input ever appears in what screens and commands show."""

    @job(
        key="secretprefix:{card_number}",
        name="tests.pay",
        queue="money",
        retry=Retry(attempts=3, backoff=lambda attempt: 1.0),
    )
    def pay(ctx: Any, card_number: str = "4111") -> None: ...

    assert pay.describe() == find_job("tests.pay").describe()
    assert pay.describe() == {
        "name": "tests.pay",
        "queue": "money",
        "retry": {"attempts": 3, "backoff": "custom"},
        "steps": [],
        "idempotent": True,
    }


def test_definition_shows_no_import_machinery() -> None:
    """What a crash report prints of a definition is the declaration."""

    @job(key="x", name="tests.one")
    def one(ctx: Any) -> None: ...

    assert isinstance(one.definition, JobDefinition)
    assert "ModuleSpec" not in repr(one.definition)
