"""What a database lacks of this release, or keeps of an earlier one, is said with the fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections, transaction
from django.db.utils import IntegrityError

from tests.factories import JobFactory
from ultimate_jobs import ANY_TENANT
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.errors import JobsSchema
from ultimate_jobs.ids import new_id
from ultimate_jobs.models import Job as Row
from ultimate_jobs.models.job import LIVE_KEY_INDEX, SUPERSEDED_KEY_INDEXES
from ultimate_jobs.records import JobFilter
from ultimate_jobs.types import (
    ClaimRequest,
    Completion,
    EnqueueRequest,
    Nack,
    OnConflict,
    WorkerCard,
)

pytestmark = pytest.mark.django_db(databases=["default", "other"])

BY_NAME, BY_KEY = SUPERSEDED_KEY_INDEXES
LIVE = "where state in ('ready', 'delayed', 'running', 'suspended')"
SUPERSEDED = {
    BY_NAME: f"create unique index {BY_NAME} on x_jobs (name, idempotency_key) {LIVE}",
    BY_KEY: f"create unique index {BY_KEY} on x_jobs (idempotency_key) {LIVE}",
}


def request(**fields: Any) -> EnqueueRequest:
    given = {
        "id": new_id(),
        "run_id": new_id(),
        "name": "tests.job",
        "queue": "default",
        "tenant": None,
        "key": "k",
        "payload": "{}",
        **fields,
    }
    return EnqueueRequest(**given)


def execute(sql: str, *, alias: str = "default") -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute(sql)


def card() -> WorkerCard:
    return WorkerCard(uuid4(), ("tests.job",), None, "host", 1, 1)


VERBS: dict[str, Callable[[PostgresDriver], Any]] = {
    "enqueue": lambda d: d.enqueue([request()], on_conflict=OnConflict.EXISTING),
    "enqueue_many": lambda d: d.enqueue(
        [request(key=str(n)) for n in range(3)], on_conflict=OnConflict.EXISTING
    ),
    "claim": lambda d: d.claim(ClaimRequest(uuid4(), ("tests.job",), 5, queues=("default",))),
    "claim from any queue": lambda d: d.claim(ClaimRequest(uuid4(), ("tests.job",), 5)),
    "ack": lambda d: d.ack(uuid4(), [Completion(uuid4(), 1)]),
    "nack": lambda d: d.nack(uuid4(), [Nack(uuid4(), 1)]),
    "cancel": lambda d: d.cancel([uuid4()], tenant=ANY_TENANT, by="tests"),
    "get": lambda d: d.introspection.get(uuid4(), tenant=None),
    "find": lambda d: d.introspection.find(JobFilter(), limit=5),
    "stats": lambda d: d.introspection.stats(),
    "retry": lambda d: d.introspection.retry(uuid4(), tenant=None, by="tests", fresh_run_id=None),
    "rescue": lambda d: d.leases.rescue(limit=5),
    "workers": lambda d: d.leases.workers(),
}
LEASE_VERBS: dict[str, Callable[[PostgresDriver], Any]] = {
    "register": lambda d: d.leases.register(card()),
    "release": lambda d: d.leases.release(uuid4()),
    "heartbeat": lambda d: d.heartbeat(uuid4()),
    "rescue": VERBS["rescue"],
    "workers": VERBS["workers"],
    "stats": VERBS["stats"],
}
TIMED = ["enqueue", "enqueue_many", "claim", "stats", "workers"]


def refusal(act: Callable[[], Any]) -> JobsSchema:
    with pytest.raises(JobsSchema) as caught, transaction.atomic():
        act()
    return caught.value


@pytest.mark.parametrize("alias", ["default", "other"])
@pytest.mark.parametrize("verb", VERBS)
def test_verb_without_the_jobs_table_says_which_migration_to_run(verb: str, alias: str) -> None:
    """Whoever comes first, the message names the database and the command that repairs it."""
    execute("alter table x_jobs rename to gone", alias=alias)

    with pytest.raises(JobsSchema) as caught, transaction.atomic(using=alias):
        VERBS[verb](PostgresDriver(alias))

    assert f'"{alias}"' in caught.value.cause
    assert "x_jobs" in caught.value.cause
    assert caught.value.fix == "manage.py migrate ultimate_jobs" + (
        "" if alias == "default" else " --database other"
    )
    assert "\n" not in caught.value.cause


@pytest.mark.parametrize("verb", LEASE_VERBS)
def test_verb_without_the_leases_table_says_so(verb: str) -> None:
    """The same for the table of rights."""
    execute("alter table x_job_leases rename to gone")

    error = refusal(lambda: LEASE_VERBS[verb](PostgresDriver("default")))

    assert "x_job_leases" in error.cause


def test_events_without_their_table_say_so() -> None:
    """The same for the history."""
    execute("alter table x_job_events rename to gone")

    error = refusal(lambda: PostgresDriver("default").introspection.events(uuid4()))

    assert "x_job_events" in error.cause


def test_stage_without_the_outbox_table_names_the_alias_it_wrote_to() -> None:
    """The fix repairs the caller's database, and not the queue's."""
    execute("alter table x_outbox rename to gone", alias="other")

    with pytest.raises(JobsSchema) as caught, transaction.atomic(using="other"):
        PostgresDriver("default").outbox.stage_enqueue(
            [request()], on_conflict=OnConflict.EXISTING, alias="other"
        )

    assert '"other"' in caught.value.cause
    assert caught.value.fix == "manage.py migrate ultimate_jobs --database other"


@pytest.mark.parametrize("verb", ["enqueue", "enqueue_many", "get", "find"])
def test_verb_without_a_column_names_it(verb: str) -> None:
    """A worker of the new release that runs before the migration says what it misses."""
    execute("alter table x_jobs drop column traceparent")

    error = refusal(lambda: VERBS[verb](PostgresDriver("default")))

    assert "traceparent" in error.cause


@pytest.mark.parametrize("verb", TIMED)
def test_verb_without_the_clock_function_names_it(verb: str) -> None:
    """The one SQL source of now is part of the schema."""
    execute("alter function x_now() rename to gone")

    error = refusal(lambda: VERBS[verb](PostgresDriver("default")))

    assert "x_now()" in error.cause


@pytest.mark.parametrize("verb", ["enqueue", "enqueue_many"])
def test_enqueue_without_the_unique_index_is_refused(verb: str) -> None:
    """Without it there is no dedupe, so nothing is stored rather than twice."""
    execute(f"drop index {LIVE_KEY_INDEX}")

    error = refusal(lambda: VERBS[verb](PostgresDriver("default")))

    assert "unique index of live keys is missing" in error.cause
    assert Row.objects.count() == 0


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    ("index", "held"),
    [(BY_NAME, {"tenant_id": "acme"}), (BY_KEY, {"name": "tests.another"})],
    ids=[BY_NAME, BY_KEY],
)
def test_enqueue_under_a_superseded_index_is_refused_as_schema(
    index: str, held: dict[str, str], count: int
) -> None:
    """Two tenants share a key, and only an index that should be gone forbids it."""
    execute(SUPERSEDED[index])
    JobFactory(**{"name": "tests.job", "idempotency_key": "k", **held})
    requests = [request(), *(request(key=str(n)) for n in range(count - 1))]

    error = refusal(
        lambda: PostgresDriver("default").enqueue(requests, on_conflict=OnConflict.EXISTING)
    )

    assert index in error.cause
    assert "superseded" in error.cause
    assert error.fix == "manage.py migrate ultimate_jobs"
    assert Row.objects.count() == 1


@pytest.mark.parametrize("index", SUPERSEDED)
def test_enqueue_under_a_superseded_index_of_its_own_key_is_deduped(index: str) -> None:
    """While both indexes stand, what both forbid is answered as ever."""
    execute(SUPERSEDED[index])
    held = JobFactory(name="tests.job", idempotency_key="k")

    [answer] = PostgresDriver("default").enqueue([request()], on_conflict=OnConflict.EXISTING)

    assert (answer.id, answer.deduped) == (held.id, True)


def test_retry_under_a_superseded_index_is_refused_as_schema() -> None:
    """Bringing a job back meets the same index, and changes nothing."""
    execute(SUPERSEDED[BY_NAME])
    JobFactory(name="tests.job", idempotency_key="k", tenant_id="acme")
    dead = JobFactory(name="tests.job", idempotency_key="k", state="dead")

    error = refusal(
        lambda: PostgresDriver("default").introspection.retry(
            dead.id, tenant=None, by="tests", fresh_run_id=None
        )
    )

    assert BY_NAME in error.cause
    dead.refresh_from_db()
    assert (dead.state, dead.retry_count) == ("dead", 0)


def test_enqueue_under_an_index_of_the_projects_own_is_the_databases_error() -> None:
    """What is not ours is not explained by us."""
    execute("create unique index projects_own on x_jobs (queue)")
    JobFactory()

    with pytest.raises(IntegrityError, match="projects_own"), transaction.atomic():
        PostgresDriver("default").enqueue([request()], on_conflict=OnConflict.EXISTING)


def test_schema_error_keeps_the_databases_own_words_as_its_cause() -> None:
    """Whoever debugs finds the original below it."""
    execute("alter table x_jobs rename to gone")

    error = refusal(lambda: PostgresDriver("default").introspection.stats())

    assert error.__cause__ is not None
