"""What import-linter cannot see: imports inside functions, the door, and who reads settings."""

from __future__ import annotations

import ast
import subprocess
import sys

import ultimate_jobs
from tests.house.repository import PACKAGE, ROOT, modules, shown


def test_no_function_imports() -> None:
    """A circle cannot hide: the package imports at the top of its modules and nowhere else."""
    hidden = [
        f"{shown(path, inner)} in {function.name}()"
        for path, tree in modules().items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(function)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    ]
    assert hidden == []


def test_no_import_is_only_for_the_type_checker() -> None:
    """``if TYPE_CHECKING`` hides a circle as well as a function does."""
    hidden = [
        shown(path, node)
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    ]
    assert hidden == []


def test_no_module_enters_by_the_door() -> None:
    """The package's own modules import each other, never what ``__init__`` gathers."""
    entering = [
        f"{shown(path, node)}: {alias.name}"
        for path, tree in modules().items()
        if path != PACKAGE / "__init__.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "ultimate_jobs" and node.level == 0
        for alias in node.names
        if alias.name in ultimate_jobs.__all__
    ]
    assert entering == []


def test_only_conf_reads_django_settings() -> None:
    """One module knows what a setting is called and what it may hold."""
    readers = {
        shown(path)
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "django.conf"
        for alias in node.names
        if alias.name == "settings"
    }
    assert readers == {"ultimate_jobs/conf.py"}


def test_door_holds_imports_and_nothing_else() -> None:
    """``__init__`` is only the door: a docstring, imports, the version, ``__all__``."""
    others = [
        ast.unparse(node)
        for node in modules()[PACKAGE / "__init__.py"].body[1:]
        if not isinstance(node, ast.ImportFrom)
        and ast.unparse(node).split(" = ")[0] not in ("__version__", "__all__")
    ]
    assert others == []


def test_door_exports_what_it_lists() -> None:
    """Every name of ``__all__`` is there, and they are sorted."""
    assert [name for name in ultimate_jobs.__all__ if not hasattr(ultimate_jobs, name)] == []
    assert sorted(ultimate_jobs.__all__) == ultimate_jobs.__all__


def test_door_opens_without_settings_and_loads_no_model() -> None:
    """``import ultimate_jobs`` works before Django is set up, and leaves its models alone."""
    code = (
        "import sys, ultimate_jobs\n"
        "from django.conf import settings\n"
        "assert not settings.configured\n"
        "loaded = [name for name in sys.modules if name.startswith('ultimate_jobs.models')]\n"
        "assert loaded == [], loaded\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code],
        cwd=ROOT,
        env={"PATH": "", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_package_imports_only_what_it_depends_on() -> None:
    """What happens to be installed with something else is not leant on by accident."""
    # asgiref belongs to Django, and pydantic_core to pydantic, which pins it. annotationlib is
    # of the standard library from Python 3.14 on.
    declared = {
        "annotationlib",
        "asgiref",
        "django",
        "pgtrigger",
        "psycopg",
        "pydantic",
        "pydantic_core",
        "typing_extensions",
        "ultimate_jobs",
        "uuid_utils",
    }
    others = [
        f"{shown(path, node)}: {name}"
        for path, tree in modules().items()
        for node in ast.walk(tree)
        for name in _imported(node)
        if name not in declared and name not in sys.stdlib_module_names
    ]
    assert others == []


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.split(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return [node.module.split(".")[0]]
    return []
