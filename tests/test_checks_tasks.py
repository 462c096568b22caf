"""The system check of tasks that look like jobs and that nobody would run."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
from django.utils.functional import SimpleLazyObject

from tests.test_checks import from_settings


@pytest.fixture
def jobs_module(monkeypatch):
    """The ``jobs.py`` of an installed app, to be filled by the test."""
    module = ModuleType("tests.app.jobs")
    monkeypatch.setitem(sys.modules, "tests.app.jobs", module)
    return module


@pytest.fixture(params=["django.tasks.base", "django_tasks.base"])
def task(request, monkeypatch):
    """Make a task as the framework and its backport do; the real one where it is installed."""
    if request.param == "django.tasks.base":
        return pytest.importorskip("django.tasks").task
    home = ModuleType(request.param)

    class Task:
        def __init__(self, func) -> None:
            self.func = func

        def get_backend(self) -> object:
            return object()

    home.Task = Task
    monkeypatch.setitem(sys.modules, request.param, home)
    return Task


def _body(module: str):
    def send() -> None: ...

    send.__module__ = module
    # The framework looks a function up where it says it stands.
    send.__qualname__ = send.__name__
    return send


def test_check_of_a_task_in_jobs_py_is_an_error(jobs_module, task) -> None:
    """It looks like a job, and no worker of ours will ever run it."""
    jobs_module.send = task(_body("tests.app.jobs"))

    message = from_settings()["E020"]

    assert message.msg.startswith("X_ACTION_JOB_UNBRIDGED: tests.app.jobs.send")
    assert message.hint == "declare tests.app.jobs.send with @ultimate_jobs.job(key=...)"


def test_check_of_a_task_that_was_imported_finds_nothing(jobs_module, task) -> None:
    """A task of another module is that module's."""
    jobs_module.send = task(_body("elsewhere.tasks"))

    assert from_settings() == {}


def test_check_of_a_task_that_we_serve_finds_nothing(jobs_module, task, monkeypatch) -> None:
    """A backend of this package is what bridges it."""
    ours = type("Backend", (), {"__module__": "ultimate_jobs.integrations.tasks"})
    jobs_module.send = task(_body("tests.app.jobs"))
    monkeypatch.setattr(type(jobs_module.send), "get_backend", lambda self: ours())

    assert from_settings() == {}


def test_check_of_what_looks_like_a_task_finds_nothing(jobs_module, task) -> None:
    """A job, a function, a module: only the class decides."""
    jobs_module.send = SimpleNamespace(func=_body("tests.app.jobs"), get_backend=None)

    assert from_settings() == {}


def test_check_loads_no_lazy_object(jobs_module, task) -> None:
    """What stands in a jobs.py may cost a query to look at, so it is not looked into."""

    def load() -> None:
        raise AssertionError("a check made a lazy object load")

    jobs_module.lazy = SimpleLazyObject(load)

    assert from_settings() == {}
