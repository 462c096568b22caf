"""System checks: each fault has its id, and a hint that is one line to run or one edit to make."""

from __future__ import annotations

import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.core import checks as django_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection, connections
from django.test import override_settings

from tests.house.repository import DOCS, ROOT
from tests.house.test_errors import parse_fix
from ultimate_jobs import checks
from ultimate_jobs.declare import job
from ultimate_jobs.drivers import use_driver
from ultimate_jobs.drivers.memory import MemoryDriver


def found(*messages: django_checks.CheckMessage) -> dict[str, django_checks.CheckMessage]:
    """Messages by their short id; each hint is one line."""
    for message in messages:
        assert message.hint
        assert "\n" not in message.hint
        parse_fix(message.hint)
    return {str(message.id).removeprefix("ultimate_jobs."): message for message in messages}


def from_settings(**settings: object) -> dict[str, django_checks.CheckMessage]:
    with override_settings(**settings):
        return found(*checks.check_settings(), *checks.check_apps())


def test_checks_of_right_settings_find_nothing() -> None:
    """The test project itself is in order."""
    assert from_settings() == {}


def test_checks_are_registered_under_one_tag() -> None:
    """``manage.py check --tag ultimate_jobs`` runs them all."""
    registered = {
        check
        for check in django_checks.registry.registry.get_checks()
        if "ultimate_jobs" in check.tags
    }

    assert registered == {checks.check_settings, checks.check_apps, checks.check_database}


def test_check_of_an_unknown_key_names_the_nearest() -> None:
    """A misspelt setting is an error, and the hint is the rename."""
    messages = from_settings(ULTIMATE_JOBS={"THREAD": 3})

    assert messages["E001"].hint == 'rename the key to "THREADS"'


def test_check_of_a_wrong_value_shows_a_right_one() -> None:
    """A value of the wrong type is an error with an example."""
    messages = from_settings(ULTIMATE_JOBS={"THREADS": "eight"})

    assert messages["E001"].hint == 'set ULTIMATE_JOBS = {"THREADS": 8} in the settings'


def test_check_of_a_middleware_that_cannot_be_made_is_an_error() -> None:
    """Before a worker fails each job with it."""
    messages = from_settings(
        ULTIMATE_JOBS={"MIDDLEWARE": ["django.middleware.common.CommonMiddleware", "nowhere.At"]}
    )

    assert "CommonMiddleware" in messages["E001"].msg
    assert messages["E001"].hint == (
        'set ULTIMATE_JOBS = {"MIDDLEWARE": ["nowhere.At"]} in the settings'
    )


def test_check_of_another_vendor_names_an_alias_that_fits(monkeypatch) -> None:
    """Jobs in SQLite are refused, and the PostgreSQL that there is stands in the hint."""
    monkeypatch.setattr(connections["other"], "vendor", "sqlite")

    messages = from_settings(ULTIMATE_JOBS={"DATABASE": "other"})

    assert messages["E002"].hint == 'set ULTIMATE_JOBS = {"DATABASE": "default"} in the settings'


def test_check_of_psycopg_2_asks_for_psycopg_3(monkeypatch) -> None:
    """Django falls back in silence; this does not."""
    monkeypatch.setattr(connection, "Database", SimpleNamespace(__name__="psycopg2"))

    assert "psycopg2" in from_settings()["E003"].msg


def test_check_without_time_zones_is_an_error() -> None:
    """Naive instants cannot be compared with the database's."""
    assert from_settings(USE_TZ=False)["E004"].hint == "set USE_TZ = True in the settings"


def test_check_without_pgtrigger_is_an_error() -> None:
    """Without it no trigger is installed, and nothing says so."""
    names = [config.name for config in apps.get_app_configs() if config.name != "pgtrigger"]

    assert "E005" in from_settings(INSTALLED_APPS=names)


@pytest.mark.parametrize("driver", ["redis", "nats", "postgrse"])
def test_check_of_a_driver_that_does_not_exist_is_an_error(driver: str) -> None:
    """Misspelt, or not built yet."""
    messages = from_settings(ULTIMATE_JOBS={"DRIVER": driver})

    assert messages["E006"].hint == 'set ULTIMATE_JOBS = {"DRIVER": "postgres"} in the settings'


def test_check_over_the_memory_driver_asks_nothing_of_a_database(monkeypatch) -> None:
    """Tests of an app that runs on SQLite are in order."""
    monkeypatch.setattr(connection, "vendor", "sqlite")
    use_driver(MemoryDriver())
    try:
        messages = from_settings()
    finally:
        use_driver(None)

    assert messages == {}


def test_check_of_models_on_another_alias_warns(own_registry) -> None:
    """What such an app enqueues in a transaction is staged, which its author should know."""
    _declare_job_of("tests.app.jobs")

    messages = from_settings(ULTIMATE_JOBS={"DATABASE": "other"})

    assert '"testapp" writes its models on default' in messages["W001"].msg
    assert messages["W001"].hint == 'set ULTIMATE_JOBS = {"DATABASE": "default"} in the settings'


def test_check_of_an_app_without_jobs_does_not_warn(own_registry) -> None:
    """Only apps that declare jobs are concerned."""
    assert from_settings(ULTIMATE_JOBS={"DATABASE": "other"}) == {}


def _declare_job_of(module: str) -> None:
    def body(ctx: object) -> None: ...

    body.__module__ = module
    job(key="once", name="checks.body")(body)


@pytest.mark.parametrize(
    ("pool", "warned"),
    [
        (True, True),
        ({"max_size": 12}, True),
        ({"min_size": 2}, True),
        ({"max_size": 13}, False),
        (False, False),
        (None, False),
    ],
)
def test_check_of_a_pool_counts_what_a_worker_needs(monkeypatch, pool, warned: bool) -> None:
    """Eight threads and four connections beside them."""
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", {"pool": pool})

    messages = from_settings()

    assert ("W002" in messages) is warned
    if warned:
        assert '"max_size": 13' in messages["W002"].hint


def test_wrong_setting_is_told_by_a_real_process_without_traceback(tmp_path) -> None:
    """``manage.py check`` gets as far as the check, although jobs would be declared before it."""
    (tmp_path / "wrong_settings.py").write_text(
        'from tests.settings import *\nULTIMATE_JOBS = {"DRIVR": "postgres"}\n'
    )

    ended = subprocess.run(
        [sys.executable, "-m", "django", "check"],
        cwd=ROOT,
        env={
            "PATH": "",
            "PYTHONPATH": f"{tmp_path}:{ROOT}",
            "DJANGO_SETTINGS_MODULE": "wrong_settings",
            "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nowhere",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    assert "(ultimate_jobs.E001)" in ended.stderr
    assert 'HINT: rename the key to "DRIVER"' in ended.stderr
    assert "Traceback" not in ended.stderr


@override_settings(ULTIMATE_JOBS={"DRIVER": "redis"})
def test_error_stops_a_command_that_runs_the_checks() -> None:
    """A worker with wrong settings does not start."""
    with pytest.raises(SystemCheckError):
        call_command("check")


def test_page_lists_every_check() -> None:
    """An id in the code has its line in the docs, and the reverse."""
    code = (ROOT / "ultimate_jobs" / "checks.py").read_text(encoding="utf-8")
    page = (DOCS / "reference" / "checks.md").read_text(encoding="utf-8")

    written = set(re.findall(r'"([EW]\d{3})"', code))
    documented = re.findall(r"^\| `ultimate_jobs\.([EW]\d{3})` \|", page, re.MULTILINE)

    assert sorted(written) == sorted(documented)
