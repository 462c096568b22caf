"""The seam: ULTIMATE_JOBS["DRIVER"] chooses, everything goes through it, and nothing guesses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from django.test import override_settings

from ultimate_jobs import ANY_TENANT, Job, RunHandle, cancel, get, job, retry
from ultimate_jobs.drivers import current_driver, driver_for, use_driver
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.errors import (
    DriverNotImplemented,
    DriverUnknown,
    DriverUnsupported,
    JobNotFound,
    SettingInvalid,
    UltimateJobsError,
)
from ultimate_jobs.models import Job as Row
from ultimate_jobs.states import JobState

SEAM = 'set ULTIMATE_JOBS = {"DRIVER": "postgres"} in the settings'


class OwnDriver(MemoryDriver):
    """A driver of a project's own."""


class SlowDriver(MemoryDriver):
    """A driver that is being made while another thread asks for it."""

    began: ClassVar[int]
    began_twice: ClassVar[Event]
    go_on: ClassVar[Event]

    def __init__(self) -> None:
        super().__init__()
        SlowDriver.began += 1
        if SlowDriver.began > 1:
            SlowDriver.began_twice.set()
        SlowDriver.go_on.wait(timeout=10)


class BrokenDriver:
    def __init__(self) -> None:
        raise ZeroDivisionError


NO_DRIVER = 5


def driver(name: str, **keys: Any) -> override_settings:
    return override_settings(ULTIMATE_JOBS={"DRIVER": name, **keys})


@pytest.fixture(autouse=True)
def from_settings() -> Iterator[None]:
    """No replacement is left behind."""
    yield
    use_driver(None)


@pytest.fixture
def send(own_registry: None) -> Job[Any, Any]:
    @job(key="x:{n}", name="tests.send")
    def send(ctx: Any, n: int) -> None: ...

    return send


# --- what the setting chooses ----------------------------------------------------------------


def test_driver_without_a_setting_is_postgres_on_the_default_alias() -> None:
    """Durable is the default."""
    chosen = current_driver()

    assert isinstance(chosen, PostgresDriver)
    assert (chosen.name, chosen.alias) == ("postgres", "default")


def test_driver_of_the_setting_is_the_one_in_use() -> None:
    """The setting is read, and its end is noticed."""
    with driver("memory"):
        inside = current_driver()

    assert isinstance(inside, MemoryDriver)
    assert isinstance(current_driver(), PostgresDriver)


def test_driver_on_another_database_is_the_settings_alias() -> None:
    """The queue may stand in a database of its own."""
    with driver("postgres", DATABASE="other"):
        assert current_driver().alias == "other"


def test_driver_by_a_dotted_path_is_that_class() -> None:
    """A project may bring its own."""
    with driver("tests.drivers.test_seam.OwnDriver"):
        assert type(current_driver()) is OwnDriver


def test_driver_is_made_once() -> None:
    """What a memory driver holds must not vanish between two calls."""
    with driver("memory"):
        assert current_driver() is current_driver()


def test_driver_asked_for_by_two_threads_at_once_is_made_once() -> None:
    """Two threads that start together share what they enqueue."""
    SlowDriver.began, SlowDriver.began_twice, SlowDriver.go_on = 0, Event(), Event()

    with driver("tests.drivers.test_seam.SlowDriver"), ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(current_driver) for _ in range(2)]
        # Nothing tells that a thread waits at the lock, so this is the time it has to pass it.
        SlowDriver.began_twice.wait(timeout=0.3)
        SlowDriver.go_on.set()
        first, second = (one.result() for one in asked)

    assert first is second
    assert SlowDriver.began == 1


def test_driver_of_a_later_override_is_a_new_one() -> None:
    """Two tests that use memory do not see each other's jobs."""
    with driver("memory"):
        first = current_driver()
    with driver("memory"):
        second = current_driver()

    assert first is not second


def test_use_driver_replaces_the_settings_until_it_is_taken_back() -> None:
    """A test hands in its own instance, which no setting can name."""
    own = MemoryDriver()

    use_driver(own)
    with driver("nats"):
        inside = current_driver()
    use_driver(None)

    assert inside is own
    assert isinstance(current_driver(), PostgresDriver)


@pytest.mark.parametrize("key", [{"LEASE_TTL": 60}, {"MAX_LOST_LEASES": 3}], ids=str)
def test_driver_follows_the_other_settings(key: dict[str, int]) -> None:
    """A driver that was made before a setting changed obeys the new one."""
    chosen = PostgresDriver()

    with override_settings(ULTIMATE_JOBS=key):
        assert (chosen.lease_ttl_ms, chosen.max_lost_leases) == (
            key.get("LEASE_TTL", 30) * 1000,
            key.get("MAX_LOST_LEASES", 10),
        )


# --- what it refuses -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nats", "redis"])
def test_driver_that_is_not_built_refuses_by_name(name: str) -> None:
    """Its name is known, it does nothing yet, and the fix is the seam."""
    with driver(name), pytest.raises(DriverNotImplemented) as caught:
        current_driver()

    assert f'"{name}"' in caught.value.cause
    assert caught.value.fix == SEAM


@pytest.mark.parametrize("name", ["nats", "redis"])
@pytest.mark.parametrize(
    "act",
    [
        lambda send: send.enqueue(n=1),
        lambda send: send.enqueue_many([{"n": 1}]),
        lambda send: get(uuid4(), tenant=None),
        lambda send: cancel(uuid4(), tenant=None),
        lambda send: retry(uuid4(), tenant=None),
        lambda send: RunHandle(uuid4(), uuid4(), False, JobState.READY, True).result(timeout=0),
        lambda send: driver_for("other"),
    ],
    ids=["enqueue", "enqueue_many", "get", "cancel", "retry", "result", "driver_for"],
)
@pytest.mark.django_db
def test_every_verb_reads_the_seam(send: Job[Any, Any], name: str, act: Callable[..., Any]) -> None:
    """No verb goes round the setting and quietly uses PostgreSQL."""
    with driver(name), pytest.raises(DriverNotImplemented):
        act(send)

    assert Row.objects.count() == 0


@pytest.mark.parametrize(
    "name",
    [
        "rabbit",
        "",
        "Postgres",
        "postgres ",
        "tests.nowhere.Driver",
        "tests.drivers.test_seam.No",
        ".",
    ],
)
def test_driver_that_is_unknown_refuses_with_the_known_ones(name: str) -> None:
    """A misspelt name falls back to nothing."""
    with driver(name), pytest.raises(DriverUnknown) as caught:
        current_driver()

    assert repr(name) in caught.value.cause
    assert "memory, nats, postgres, redis" in caught.value.cause
    assert caught.value.fix == SEAM


def test_driver_by_a_path_to_no_class_is_refused() -> None:
    """What cannot be made is no driver."""
    with driver("tests.drivers.test_seam.NO_DRIVER"), pytest.raises(DriverUnknown) as caught:
        current_driver()

    assert "it is a int" in caught.value.cause


def test_driver_that_raises_when_it_is_made_shows_its_own_error() -> None:
    """A project's own error is not dressed up as an unknown driver, and is not remembered."""
    with driver("tests.drivers.test_seam.BrokenDriver"):
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                current_driver()


@pytest.mark.parametrize("name", [None, 5, MemoryDriver, b"memory"])
def test_driver_that_is_no_name_is_refused(name: Any) -> None:
    """The setting is a name or a path."""
    with driver(name), pytest.raises(SettingInvalid):
        current_driver()


# --- effects ---------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_enqueue_with_the_memory_driver_writes_no_row(send: Job[Any, Any]) -> None:
    """The proof that the seam is read: the job is where the setting says, and only there."""
    with driver("memory"):
        handle = send.enqueue(n=1)
        record = get(handle.id, tenant=None)
        rows = Row.objects.count()

    assert (record.id, rows) == (handle.id, 0)
    with pytest.raises(JobNotFound):
        get(handle.id, tenant=ANY_TENANT)


@pytest.mark.django_db(databases=["default", "other"])
def test_drivers_of_two_databases_in_one_process_share_nothing(send: Job[Any, Any]) -> None:
    """Each alias sees its own rows, in whatever order they are asked."""
    handles = {}
    for alias in ("default", "other", "default", "other"):
        use_driver(PostgresDriver(alias))
        handles[alias] = send.using(alias=alias).enqueue(n=1)

    for alias, handle in handles.items():
        chosen = PostgresDriver(alias)
        assert chosen.introspection.get(handle.id, tenant=None) is not None
        assert [row.id for row in Row.objects.using(alias)] == [handle.id]
        assert [one.depth for one in chosen.introspection.stats()] == [1]
    assert handles["default"].id != handles["other"].id


# --- driver_for ------------------------------------------------------------------------------


@pytest.mark.parametrize("alias", [None, "default"])
def test_driver_for_its_own_alias_is_the_same_driver(alias: str | None) -> None:
    """``--database`` with the queue's own alias changes nothing."""
    assert driver_for(alias) is current_driver()


def test_driver_for_another_alias_keeps_what_the_driver_was_told() -> None:
    """Only the database is another."""
    use_driver(PostgresDriver("default", lease_ttl_ms=1234, max_lost_leases=7))

    other: Any = driver_for("other")

    assert (other.alias, other.lease_ttl_ms, other.max_lost_leases) == ("other", 1234, 7)


def test_driver_for_an_alias_in_memory_is_refused() -> None:
    """Jobs that are in no database are in no other either."""
    use_driver(MemoryDriver())

    with pytest.raises(DriverUnsupported) as caught:
        driver_for("other")

    assert '"other"' in caught.value.cause
    assert caught.value.fix == SEAM


def test_refusals_of_the_seam_are_errors_of_this_package() -> None:
    """One except clause of a command prints each of them."""
    for kind in (DriverUnknown, DriverNotImplemented, DriverUnsupported, SettingInvalid):
        assert issubclass(kind, UltimateJobsError)
