"""Where an enqueue is written: with the caller's own data, on whichever database that stands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from ultimate_jobs import ANY_TENANT, Job, RunHandle, get, job
from ultimate_jobs.drivers import use_driver
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.errors import (
    DatabaseUnsupported,
    EnqueueAliasAmbiguous,
    JobNotFound,
    JobOptionInvalid,
)
from ultimate_jobs.models import Job as Row
from ultimate_jobs.models import OutboxMessage
from ultimate_jobs.services.placement import Way, place
from ultimate_jobs.states import JobState
from ultimate_jobs.types import ClaimRequest

BOTH = ["default", "other"]
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

pytestmark = pytest.mark.usefixtures("own_registry")
committing = pytest.mark.django_db(transaction=True, databases=BOTH)
committing_one = pytest.mark.django_db(transaction=True)
in_testcase = pytest.mark.django_db(databases=BOTH)

Handle = Job[Any, Any]


@pytest.fixture
def send() -> Handle:
    @job(key="invoice:{n}", name="tests.send", queue="billing")
    def send(ctx: Any, n: int) -> None: ...

    return send


@pytest.fixture
def memory() -> Iterator[MemoryDriver]:
    """Jobs of this process only."""
    driver = MemoryDriver()
    use_driver(driver)
    yield driver
    use_driver(None)
    driver.close()


@pytest.fixture
def queue_elsewhere() -> Iterator[PostgresDriver]:
    """A queue that does not stand in the default database."""
    driver = PostgresDriver("other")
    use_driver(driver)
    yield driver
    use_driver(None)


@pytest.fixture
def third() -> Iterator[str]:
    """One more alias, onto the database of ``other``."""
    connections.settings["third"] = dict(connections.settings["other"])
    # The test's own guard allows the aliases that it knew at its start.
    connections["third"].connect()
    yield "third"
    connections["third"].close()
    del connections["third"]
    del connections.settings["third"]


def staged(alias: str) -> list[dict[str, Any]]:
    rows = OutboxMessage.objects.using(alias).order_by("id")
    return [row.payload for row in rows]


def stored(alias: str = "default") -> list[UUID]:
    return list(Row.objects.using(alias).order_by("id").values_list("id", flat=True))


def in_memory(driver: MemoryDriver, handle: RunHandle) -> bool:
    return driver.introspection.get(handle.id, tenant=ANY_TENANT) is not None


# --- on PostgreSQL ---------------------------------------------------------------------------


@in_testcase
def test_enqueue_inside_the_queues_own_transaction_is_direct(send: Handle) -> None:
    """The usual case: one database, one transaction, one row."""
    with transaction.atomic():
        handle = send.enqueue(n=1)

    assert stored() == [handle.id]
    assert staged("default") == []


@in_testcase
def test_enqueue_inside_another_databases_transaction_is_staged_there(send: Handle) -> None:
    """The job goes with the data, in the outbox of the database where the data is."""
    with transaction.atomic(using="other"):
        handle = send.enqueue(n=1)

    [message] = staged("other")
    assert message["id"] == str(handle.id)
    assert stored() == []
    assert staged("default") == []


@in_testcase
def test_enqueue_staged_answers_final_ids_and_nothing_it_cannot_know(send: Handle) -> None:
    """Whether the key is held is not known before the relay, and the answer does not guess."""
    with transaction.atomic(using="other"):
        handle = send.enqueue(n=1)
        later = send.using(run_after=timedelta(hours=1)).enqueue(n=2)

    assert (handle.deduped, handle.same_input) == (None, None)
    assert (handle.state, later.state) == (JobState.READY, JobState.DELAYED)
    assert [(one["id"], one["run_id"]) for one in staged("other")] == [
        (str(one.id), str(one.run_id)) for one in (handle, later)
    ]


@in_testcase
def test_enqueue_staged_rolls_back_with_the_other_databases_data(send: Handle) -> None:
    """A job exists exactly if the data it was enqueued with exists."""
    with transaction.atomic(using="other"):
        send.enqueue(n=1)
        transaction.set_rollback(True, using="other")

    assert staged("other") == []
    assert stored() == []


@in_testcase
def test_enqueue_staged_keeps_all_that_the_relay_will_need(send: Handle) -> None:
    """Nothing that was asked for is lost on the way, not even what a conflict is to do."""
    moment = datetime(2100, 1, 1, tzinfo=UTC)

    with transaction.atomic(using="other"):
        send.using(
            tenant="acme",
            priority=0,
            run_after=moment,
            queue="slow",
            traceparent=TRACE,
            on_conflict="rerun",
        ).enqueue(n=1)

    [row] = OutboxMessage.objects.using("other")
    message = row.payload
    assert (row.topic, row.tenant_id, row.published_at) == ("ultimate_jobs.enqueue", "acme", None)
    assert {key: message[key] for key in ("name", "queue", "tenant", "key", "priority")} == {
        "name": "tests.send",
        "queue": "slow",
        "tenant": "acme",
        "key": "invoice:1",
        "priority": 0,
    }
    assert json.loads(message["payload"]) == {"n": 1}
    assert datetime.fromisoformat(message["run_after"]) == moment
    assert (message["traceparent"], message["on_conflict"]) == (TRACE, "rerun")
    assert message["max_attempts"] == send.definition.retry.attempts


@in_testcase
def test_enqueue_staged_keeps_large_floats_as_they_are(own_registry: None) -> None:
    """The outbox changes an input as little as the queue does."""

    @job(key="float", name="tests.float")
    def weigh(ctx: Any, value: Any) -> None: ...

    with transaction.atomic(using="other"):
        weigh.enqueue(value=3.817069980338431e16)

    [message] = staged("other")
    back = weigh.definition.schema.decode(message["payload"])["value"]
    assert type(back) is float
    assert back == 3.817069980338431e16


@in_testcase
def test_enqueue_many_staged_keeps_the_order_and_is_one_statement(send: Handle) -> None:
    """A list is staged in the order in which it was given."""
    with transaction.atomic(using="other"), CaptureQueriesContext(connections["other"]) as sent:
        handles = send.enqueue_many([{"n": n} for n in (3, 1, 2)])

    assert [message["id"] for message in staged("other")] == [str(one.id) for one in handles]
    assert len([q for q in sent if "INSERT" in q["sql"]]) == 1


@in_testcase
def test_enqueue_staged_with_on_conflict_error_is_refused(send: Handle) -> None:
    """Nobody can tell yet whether the key is held, so the question is refused, not dropped."""
    with transaction.atomic(using="other"):
        with pytest.raises(JobOptionInvalid) as caught:
            send.using(on_conflict="error").enqueue(n=1)
        send.enqueue(n=2)

    assert "on_conflict" in caught.value.cause
    assert '"other"' in caught.value.cause
    assert len(staged("other")) == 1


@in_testcase
def test_enqueue_using_another_alias_without_a_transaction_is_staged_at_once(send: Handle) -> None:
    """The alias that was named decides, also in autocommit."""
    handle = send.using(alias="other").enqueue(n=1)

    assert [message["id"] for message in staged("other")] == [str(handle.id)]
    assert handle.deduped is None


@in_testcase
def test_enqueue_using_the_queues_alias_is_direct_whatever_else_is_open(send: Handle) -> None:
    """Naming the queue's own database writes there, in autocommit if nothing is open."""
    with transaction.atomic(using="other"):
        handle = send.using(alias="default").enqueue(n=1)
        transaction.set_rollback(True, using="other")

    assert stored() == [handle.id]
    assert staged("other") == []


@in_testcase
def test_enqueue_inside_both_transactions_prefers_the_queues_own(send: Handle) -> None:
    """Where the queue's own transaction is open, the row is written in it."""
    with transaction.atomic(using="other"), transaction.atomic():
        handle = send.enqueue(n=1)

    assert stored() == [handle.id]
    assert staged("other") == []


@in_testcase
def test_enqueue_after_another_databases_transaction_is_direct(send: Handle) -> None:
    """A block that has ended decides nothing any more."""
    with transaction.atomic(using="other"):
        pass

    handle = send.enqueue(n=1)

    assert stored() == [handle.id]


@in_testcase
def test_enqueue_inside_two_other_transactions_is_refused(send: Handle, third: str) -> None:
    """Which of two to commit with is not guessed, and nothing is written anywhere."""
    with (
        transaction.atomic(using="other"),
        transaction.atomic(using=third),
        pytest.raises(EnqueueAliasAmbiguous) as caught,
    ):
        send.enqueue(n=1)

    assert "other, third" in caught.value.cause
    assert '.using(alias="other")' in caught.value.fix
    assert (stored(), staged("other")) == ([], [])


@in_testcase
def test_enqueue_inside_two_other_transactions_follows_the_named_one(
    send: Handle, third: str
) -> None:
    """The fix of the refusal works."""
    with transaction.atomic(using="other"), transaction.atomic(using=third):
        handle = send.using(alias=third).enqueue(n=1)
        found = [message["id"] for message in staged(third)]
        transaction.set_rollback(True, using=third)

    assert found == [str(handle.id)]
    assert staged("other") == []


@in_testcase
def test_enqueue_inside_two_other_and_its_own_transaction_is_direct(
    send: Handle, third: str
) -> None:
    """There is no doubt where the queue's own is open."""
    with (
        transaction.atomic(using="other"),
        transaction.atomic(using=third),
        transaction.atomic(),
    ):
        handle = send.enqueue(n=1)

    assert stored() == [handle.id]


@in_testcase
def test_enqueue_to_a_queue_elsewhere_follows_its_driver(
    send: Handle, queue_elsewhere: PostgresDriver
) -> None:
    """With the queue in another database, the default one is the other."""
    direct = send.enqueue(n=1)
    with transaction.atomic():
        outbox = send.enqueue(n=2)

    assert stored("other") == [direct.id]
    assert [message["id"] for message in staged("default")] == [str(outbox.id)]
    assert stored("default") == []


@in_testcase
def test_get_looks_into_the_queues_database_only(
    send: Handle, queue_elsewhere: PostgresDriver
) -> None:
    """Each driver sees its own rows, and no other's."""
    handle = send.enqueue(n=1)

    assert get(handle.id, tenant=None).id == handle.id
    use_driver(None)
    with pytest.raises(JobNotFound):
        get(handle.id, tenant=None)


@in_testcase
def test_enqueue_of_a_refused_input_stages_nothing(send: Handle) -> None:
    """A refusal comes before the outbox too, and the transaction goes on."""
    with transaction.atomic(using="other"):
        with pytest.raises(Exception, match="X_JOB_INPUT_INVALID"):
            send.enqueue(n="x")
        send.enqueue(n=1)

    assert len(staged("other")) == 1


# --- inside a TestCase -----------------------------------------------------------------------


@in_testcase
def test_enqueue_in_a_testcase_over_two_databases_is_direct(send: Handle) -> None:
    """The blocks that a TestCase opens are nobody's choice: it is as in autocommit."""
    handle = send.enqueue(n=1)

    assert stored() == [handle.id]
    assert staged("other") == []


@in_testcase
def test_enqueue_in_a_testcase_inside_another_databases_block_is_staged(send: Handle) -> None:
    """A test sees what production will do."""
    with transaction.atomic(using="other"):
        handle = send.enqueue(n=1)

    assert [message["id"] for message in staged("other")] == [str(handle.id)]
    assert stored() == []


@in_testcase
def test_enqueue_in_a_testcase_to_a_queue_elsewhere_is_direct(
    send: Handle, queue_elsewhere: PostgresDriver
) -> None:
    """Nothing is staged because of a block that only the test holds open."""
    handle = send.enqueue(n=1)

    assert stored("other") == [handle.id]
    assert staged("default") == []


# --- without a database for the queue ---------------------------------------------------------


@committing_one
def test_enqueue_in_memory_outside_of_a_transaction_is_applied_at_once(
    send: Handle, memory: MemoryDriver
) -> None:
    """In autocommit there is nothing to wait for, and the answer is complete."""
    handle = send.enqueue(n=1)

    assert (handle.deduped, handle.state) == (False, JobState.READY)
    assert in_memory(memory, handle)
    assert send.enqueue(n=1).id == handle.id


@committing_one
def test_enqueue_in_memory_inside_a_transaction_is_applied_on_commit(
    send: Handle, memory: MemoryDriver
) -> None:
    """A worker must not see a job before the data that it is about."""
    with transaction.atomic():
        handle = send.enqueue(n=1)
        before = in_memory(memory, handle)

    assert not before
    assert (handle.deduped, handle.same_input) == (None, None)
    assert in_memory(memory, handle)
    request = ClaimRequest(handle.id, ("tests.send",), 5, queues=None)
    [claimed] = memory.claim(request)
    assert (claimed.id, claimed.run_id) == (handle.id, handle.run_id)


@committing_one
def test_enqueue_in_memory_inside_a_transaction_that_rolls_back_leaves_nothing(
    send: Handle, memory: MemoryDriver
) -> None:
    """The same promise as on PostgreSQL."""
    with transaction.atomic():
        handle = send.enqueue(n=1)
        transaction.set_rollback(True)

    assert not in_memory(memory, handle)
    assert send.enqueue(n=1).deduped is False


@committing_one
def test_enqueue_in_memory_inside_a_savepoint_that_rolls_back_leaves_the_rest(
    send: Handle, memory: MemoryDriver
) -> None:
    """Each job goes with the innermost block that it was enqueued in."""
    with transaction.atomic():
        kept = send.enqueue(n=1)
        with transaction.atomic():
            gone = send.enqueue(n=2)
            transaction.set_rollback(True)

    assert in_memory(memory, kept)
    assert not in_memory(memory, gone)


@committing
@pytest.mark.parametrize("alias", BOTH)
def test_enqueue_in_memory_is_tied_to_the_open_database_and_not_to_default(
    send: Handle, memory: MemoryDriver, alias: str
) -> None:
    """A callback on the default alias would fire at once, while the data is not committed."""
    with transaction.atomic(using=alias):
        handle = send.enqueue(n=1)
        before = in_memory(memory, handle)

    assert not before
    assert in_memory(memory, handle)


@committing
def test_enqueue_in_memory_using_an_alias_waits_for_that_one(
    send: Handle, memory: MemoryDriver
) -> None:
    """The alias that was named decides, between two that are open."""
    with transaction.atomic(using="default"):
        with transaction.atomic(using="other"):
            handle = send.using(alias="other").enqueue(n=1)
        after_other = in_memory(memory, handle)

    assert after_other


@in_testcase
def test_enqueue_in_memory_inside_two_transactions_is_refused(
    send: Handle, memory: MemoryDriver
) -> None:
    """Which of two to wait for is not guessed."""
    with (
        transaction.atomic(using="default"),
        transaction.atomic(using="other"),
        pytest.raises(EnqueueAliasAmbiguous),
    ):
        send.enqueue(n=1)


@committing_one
def test_enqueue_in_memory_that_fails_on_commit_stops_no_other_callback(
    send: Handle, memory: MemoryDriver, caplog: pytest.LogCaptureFixture
) -> None:
    """An app's own callbacks run, and a successful commit raises nothing."""
    ran: list[str] = []
    send.enqueue(n=1)

    with transaction.atomic():
        transaction.on_commit(lambda: ran.append("before"))
        send.using(on_conflict="error").enqueue(n=1)
        transaction.on_commit(lambda: ran.append("after"))

    assert ran == ["before", "after"]
    assert "X_JOB_DUPLICATE" in caplog.text


@in_testcase
def test_enqueue_in_memory_in_a_testcase_is_applied_by_djangos_own_helper(
    send: Handle, memory: MemoryDriver, django_capture_on_commit_callbacks: Any
) -> None:
    """``captureOnCommitCallbacks`` runs ours like any other."""
    with django_capture_on_commit_callbacks(execute=True) as callbacks:
        handle = send.enqueue(n=1)

    assert len(callbacks) == 1
    assert in_memory(memory, handle)


@in_testcase
def test_enqueue_in_memory_in_a_testcase_over_two_databases_is_not_ambiguous(
    send: Handle, memory: MemoryDriver
) -> None:
    """A test that names two databases can still enqueue."""
    assert send.enqueue(n=1).deduped is None


@in_testcase
def test_enqueue_in_memory_in_a_testcase_leaves_nothing_that_was_not_applied(
    send: Handle, memory: MemoryDriver
) -> None:
    """What a test never commits is not there, for this test or the next."""
    handle = send.enqueue(n=1)

    assert not in_memory(memory, handle)
    assert len(connection.run_on_commit) == 1


# --- the decision itself ----------------------------------------------------------------------


@in_testcase
@pytest.mark.parametrize(
    ("opened", "alias", "way", "where"),
    [
        ([], None, Way.DIRECT, "default"),
        ([], "default", Way.DIRECT, "default"),
        ([], "other", Way.STAGED, "other"),
        (["default"], None, Way.DIRECT, "default"),
        (["other"], None, Way.STAGED, "other"),
        (["other"], "default", Way.DIRECT, "default"),
        (["default", "other"], None, Way.DIRECT, "default"),
        (["default", "other"], "other", Way.STAGED, "other"),
    ],
)
def test_place_on_postgres_decides_by_what_is_open_and_named(
    opened: list[str], alias: str | None, way: Way, where: str
) -> None:
    """The whole table of a queue in the default database."""
    with ExitStack() as blocks:
        for one in opened:
            blocks.enter_context(transaction.atomic(using=one))
        placement = place(PostgresDriver("default"), job="tests.send", alias=alias)

    assert (placement.way, placement.alias) == (way, where)


# --- beside a database that is no PostgreSQL --------------------------------------------------


@in_testcase
def test_alias_that_is_no_postgresql_is_no_place_to_stage(send: Handle, lite: str) -> None:
    """It cannot hold the outbox, so it is neither chosen nor proposed."""
    with transaction.atomic(using=lite):
        alone = send.enqueue(n=1)
        with transaction.atomic(using="other"):
            beside = send.enqueue(n=2)

    assert stored() == [alone.id]
    assert [message["id"] for message in staged("other")] == [str(beside.id)]


@in_testcase
def test_using_an_alias_that_is_no_postgresql_is_refused(send: Handle, lite: str) -> None:
    """In our words, with an alias that can hold it."""
    with transaction.atomic(using=lite), pytest.raises(DatabaseUnsupported) as refused:
        send.using(alias=lite).enqueue(n=1)

    assert refused.value.fix == 'use .using(alias="default")'
    assert stored() == []


@pytest.mark.parametrize("conflict", ["existing", "error", "rerun"])
def test_enqueue_to_a_queue_that_is_no_postgresql_is_refused(
    send: Handle, lite: str, conflict: str
) -> None:
    """Not with sqlite's own words for a statement it does not know."""
    use_driver(PostgresDriver(lite))
    try:
        with pytest.raises(DatabaseUnsupported) as refused:
            send.using(on_conflict=conflict).enqueue_many([{"n": 1}, {"n": 2}])
    finally:
        use_driver(None)

    assert refused.value.fix == 'set ULTIMATE_JOBS = {"DATABASE": "default"} in the settings'


def test_memory_queue_waits_for_the_commit_of_any_database(
    send: Handle, memory: MemoryDriver, lite: str
) -> None:
    """Nothing is staged there: the commit is only waited for."""
    with transaction.atomic(using=lite):
        handle = send.enqueue(n=1)
        assert not in_memory(memory, handle)

    assert in_memory(memory, handle)
