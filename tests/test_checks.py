"""System checks: each fault has its id, and a hint that is one line to run or one edit to make."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest
from django.apps import apps
from django.core import checks as django_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import NotSupportedError, OperationalError, connection, connections
from django.test import override_settings

from tests.house.repository import DOCS, ROOT
from tests.house.test_errors import parse_fix
from ultimate_jobs import checks
from ultimate_jobs.declare import job
from ultimate_jobs.drivers import use_driver
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.drivers.postgres import schema
from ultimate_jobs.models.job import LIVE_KEY_INDEX, SUPERSEDED_KEY_INDEXES


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


def from_database() -> dict[str, django_checks.CheckMessage]:
    return found(*checks.check_database(databases=["default"]))


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


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
        ({"max_size": 11}, True),
        ({"min_size": 2}, True),
        ({"max_size": 12}, False),
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
        assert '"max_size": 12' in messages["W002"].hint


# --- what the database tells ---------------------------------------------------------------------


@pytest.mark.django_db
def test_check_of_a_migrated_database_finds_nothing() -> None:
    """What the migrations made is in order."""
    assert from_database() == {}


@pytest.mark.django_db
@pytest.mark.parametrize("databases", [None, [], ["other"]])
def test_check_asks_no_database_it_was_not_told_to(databases, django_assert_num_queries) -> None:
    """A plain ``manage.py check`` opens no connection."""
    with django_assert_num_queries(0):
        assert checks.check_database(databases=databases) == []


@pytest.mark.django_db
def test_check_of_a_missing_trigger_is_an_error() -> None:
    """What must never change is no longer kept."""
    execute(f"drop trigger {_pgid('event_is_never_updated')} on x_job_events")

    message = from_database()["E010"]

    assert "event_is_never_updated is missing" in message.msg
    assert message.hint == (
        "manage.py pgtrigger install ultimate_jobs.JobEvent:event_is_never_updated "
        "--database default"
    )


@pytest.mark.django_db
def test_check_of_a_disabled_trigger_is_an_error() -> None:
    """A trigger that is there and sleeps is as good as none."""
    execute(f"alter table x_jobs disable trigger {_pgid('run_again')}")

    message = from_database()["E010"]

    assert "run_again is disabled" in message.msg
    assert message.hint.startswith("manage.py pgtrigger enable ultimate_jobs.Job:run_again ")


@pytest.mark.django_db
def test_check_of_a_stale_trigger_is_an_error() -> None:
    """A trigger of another release does something else."""
    execute(f"comment on trigger {_pgid('run_again')} on x_jobs is 'another hash'")

    message = from_database()["E010"]

    assert "run_again is not the declared one" in message.msg
    assert message.hint.startswith("manage.py pgtrigger install ultimate_jobs.Job:run_again ")


@pytest.mark.django_db
def test_hint_of_a_missing_trigger_mends_it() -> None:
    """The line that is printed is run, and the check is silent."""
    execute(f"drop trigger {_pgid('run_again')} on x_jobs")

    call_command(*shlex.split(from_database()["E010"].hint)[1:])

    assert from_database() == {}


def _pgid(name: str) -> str:
    [pgid] = [
        trigger.get_pgid(model)
        for model in apps.get_app_config("ultimate_jobs").get_models()
        for trigger in getattr(model._meta, "triggers", ())
        if trigger.name == name
    ]
    return str(pgid)


@pytest.mark.django_db
def test_check_of_the_missing_key_index_is_an_error() -> None:
    """Without it nothing is deduped."""
    execute(f"drop index {LIVE_KEY_INDEX}")

    message = from_database()["E011"]

    assert f"{LIVE_KEY_INDEX} is missing" in message.msg
    assert "CREATE UNIQUE INDEX CONCURRENTLY" in message.hint


@pytest.mark.django_db
def test_hint_of_the_missing_key_index_builds_the_declared_one() -> None:
    """The SQL in the hint is run, and the index is what it was."""
    before = _definition()
    execute(f"drop index {LIVE_KEY_INDEX}")

    [*_, flag, statement] = shlex.split(from_database()["E011"].hint)
    # A test is a transaction, which a concurrent build refuses.
    execute(statement.replace(" CONCURRENTLY", ""))

    assert flag == "-c"
    assert _definition() == before
    assert from_database() == {}


def _definition() -> str:
    with connection.cursor() as cursor:
        cursor.execute("select pg_get_indexdef(%s::regclass)", [LIVE_KEY_INDEX])
        return str(cursor.fetchone()[0])


@pytest.mark.django_db
def test_check_of_an_invalid_key_index_is_an_error() -> None:
    """A build that was interrupted leaves an index that dedupes nothing."""
    execute(
        f"update pg_index set indisvalid = false where indexrelid = '{LIVE_KEY_INDEX}'::regclass"
    )

    message = from_database()["E011"]

    assert "is invalid" in message.msg
    assert re.search(r"-c .DROP INDEX CONCURRENTLY .* -c .CREATE UNIQUE INDEX", message.hint)


@pytest.mark.django_db
@pytest.mark.parametrize("name", SUPERSEDED_KEY_INDEXES)
def test_check_of_a_superseded_index_is_an_error(name: str) -> None:
    """While it stands, two tenants cannot hold one key."""
    execute(f"create unique index {name} on x_jobs (name, idempotency_key)")

    message = from_database()["E011"]

    assert f"{name}, which was replaced, is still enforced" in message.msg
    assert f"DROP INDEX CONCURRENTLY IF EXISTS {name}" in message.hint


@pytest.mark.django_db
def test_check_before_the_migrations_finds_nothing() -> None:
    """``migrate`` asks first: what it is about to make must not stop it."""
    execute("drop table x_jobs cascade")
    execute("delete from django_migrations where app = 'ultimate_jobs'")

    assert not schema.is_migrated("default")
    assert from_database() == {}


@pytest.mark.django_db
def test_check_of_missing_tables_survives() -> None:
    """Tables that were dropped by hand are an answer, not an exception."""
    execute("drop table x_jobs cascade")

    assert {"E010", "E011"} <= set(from_database())


def test_check_of_an_unreachable_database_warns(monkeypatch) -> None:
    """A build machine without a database can still run ``check``."""

    def refuse(alias: str) -> bool:
        raise OperationalError("connection refused\nIs the server running?")

    monkeypatch.setattr(schema, "is_migrated", refuse)
    monkeypatch.setitem(vars(connections["default"]), "pg_version", 180_000)

    message = from_database()["W011"]

    assert "X_DATABASE_UNAVAILABLE" in message.msg
    assert message.hint == "manage.py dbshell --database default"


@pytest.mark.parametrize("version", [130_012, 96_024])
def test_check_of_an_old_server_warns(monkeypatch, version: int) -> None:
    """What is not tested is not promised."""
    monkeypatch.setitem(vars(connections["default"]), "pg_version", version)
    monkeypatch.setattr(schema, "is_migrated", lambda alias: False)

    assert "14 is the oldest" in from_database()["W010"].msg


def test_check_of_a_server_that_django_refuses_warns(monkeypatch) -> None:
    """Django raises at connect; the check says the same in its own words."""

    def refuse(alias: str) -> list[object]:
        raise NotSupportedError("PostgreSQL 14 or later is required (found 12.1).")

    monkeypatch.setattr(checks, "_server", refuse)

    assert "found 12.1" in from_database()["W010"].msg


# --- tasks that nobody would run -----------------------------------------------------------------


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


# --- from the outside ----------------------------------------------------------------------------


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
