"""What the README and the docs show works."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest
from django.core.management import call_command

from tests.docs.blocks import Block, blocks, group
from tests.house.test_errors import parse_fix
from ultimate_jobs.drivers import current_driver
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.models import Job, JobEvent

pytestmark = pytest.mark.usefixtures("own_registry")


@contextmanager
def module(name: str) -> Iterator[ModuleType]:
    """A module that the blocks of a page can import their own job from."""
    parts = name.split(".")
    names = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
    sys.modules.update({one: ModuleType(one) for one in names})
    try:
        yield sys.modules[name]
    finally:
        for one in names:
            del sys.modules[one]


def run(block: Block, into: ModuleType) -> None:
    exec(compile(block.text, block.place, "exec", dont_inherit=True), vars(into))


@pytest.mark.django_db(transaction=True)
def test_readme_job_runs_as_shown() -> None:
    """The ten lines of the README enqueue a job that a worker completes."""
    with module("shop.jobs") as shop:
        for block in group("readme"):
            run(block, shop)

        call_command("runjobs", "--burst")

        assert shop.handle.result(timeout=1) == "Hello, Ada!"


@pytest.mark.django_db(transaction=True)
def test_tutorial_ends_as_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Ada's job completes, Grace's fails once and waits, Alan's was rolled back."""
    with module("greetings.jobs") as greetings:
        for block in group("tutorial"):
            run(block, greetings)
        assert capsys.readouterr().out == "True ready\n"

        call_command("runjobs", "--burst")

        stored = {job.payload["name"]: job for job in Job.objects.all()}
        assert {name: job.state for name, job in stored.items()} == {
            "Ada": "completed",
            "Grace": "ready",
        }
        failed = JobEvent.objects.get(job_id=stored["Grace"].id)
        assert failed.type == "failed"
        assert "the post office is closed" in failed.detail["traceback"]


@pytest.mark.django_db(transaction=True)
def test_testing_guide_runs_a_job_on_postgres() -> None:
    """The test that the guide shows passes."""
    with module("guide.tests") as guide:
        for block in group("testing"):
            run(block, guide)

        guide.test_greeting_runs()


def test_testing_guide_enqueues_in_memory() -> None:
    """The fixture that the guide shows gives a driver, and takes it back."""
    with module("guide.tests") as guide:
        for block in group("memory"):
            run(block, guide)

        fixture = guide.jobs.__wrapped__() if hasattr(guide.jobs, "__wrapped__") else None
        assert fixture is not None, "pytest no longer keeps the function of a fixture"
        driver = next(fixture)
        assert isinstance(driver, MemoryDriver)
        guide.test_greeting_is_enqueued(driver)
        assert list(fixture) == []

    assert current_driver() is not driver


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.place)
def test_python_block_parses(block: Block) -> None:
    """Every Python block is Python, those with an ellipsis in them too."""
    compile(block.text, block.place, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)


@pytest.mark.parametrize("block", blocks("sh"), ids=lambda block: block.place)
def test_shell_block_names_commands_that_parse(block: Block) -> None:
    """Every ``manage.py`` line of the docs is one that Django would run."""
    for line in block.text.splitlines():
        for command in line.split("&&"):
            if "manage.py" in command and "startapp" not in command:
                # The alias that the guide on several databases makes up.
                known = command.replace("--database queue", "--database other")
                parse_fix(known.strip().removeprefix("python "))
