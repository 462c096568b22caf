"""enqueue, get, cancel and retry, as an app calls them, on PostgreSQL."""

from __future__ import annotations

import enum
import json
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, connections, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils.safestring import SafeString, mark_safe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.app.models import Document
from tests.factories import JobFactory
from ultimate_jobs import ANY_TENANT, Job, JobContext, Retry, RunHandle, cancel, get, job, retry
from ultimate_jobs.drivers import current_driver
from ultimate_jobs.errors import (
    JobDuplicate,
    JobInputInvalid,
    JobKeyInvalid,
    JobNotFound,
    JobPayloadInvalid,
    JobPayloadTooLarge,
    JobStateRefused,
    UltimateJobsError,
)
from ultimate_jobs.identity import MAX_BYTES
from ultimate_jobs.models import Job as Row
from ultimate_jobs.records import JobFilter
from ultimate_jobs.services.context import enter_context
from ultimate_jobs.states import FINAL, LIVE, JobState
from ultimate_jobs.types import CancelOutcome, Claim, ClaimRequest, Completion, Nack

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_registry")]

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER_TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-01"
MINUTE = timedelta(minutes=1)

Handle = Job[Any, Any]


@pytest.fixture
def send() -> Handle:
    """A job with an option of every kind."""

    @job(
        key="invoice:{n}",
        name="tests.send",
        queue="billing",
        priority=5,
        retry=Retry(attempts=3),
    )
    def send(ctx: Any, n: int, note: str = "") -> None: ...

    return send


@pytest.fixture
def take() -> Handle:
    """A job that takes anything."""

    @job(key=lambda value: "k", name="tests.take")
    def take(ctx: Any, value: Any) -> None: ...

    return take


def row(handle: RunHandle) -> Row:
    return Row.objects.get(pk=handle.id)


def database_now() -> datetime:
    return current_driver().introspection.now()


def claim(name: str = "tests.send", queue: str = "billing") -> Claim:
    """Claim the one due job."""
    request = ClaimRequest(worker=uuid4(), names=(name,), limit=10, queues=(queue,))
    [claimed] = current_driver().claim(request)
    return claimed


def end(claimed: Claim, *, dead: bool = False) -> None:
    driver = current_driver()
    if dead:
        driver.nack(claimed.worker, [Nack(claimed.id, claimed.token, dead_letter=True)])
    else:
        driver.ack(claimed.worker, [Completion(claimed.id, claimed.token, '"done"')])


def queries(act: Callable[[], Any]) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        act()
    return [query["sql"] for query in captured.captured_queries]


# --- what is stored --------------------------------------------------------------------------


def test_enqueue_stores_the_declaration_and_the_inputs(send: Handle) -> None:
    """The row says all that a worker of any host needs, defaults included."""
    handle = send.enqueue(n=7)

    stored = row(handle)
    assert (stored.name, stored.queue, stored.idempotency_key) == (
        "tests.send",
        "billing",
        "invoice:7",
    )
    assert (stored.state, stored.priority, stored.max_attempts) == ("ready", 5, 3)
    assert stored.payload == {"n": 7, "note": ""}
    assert (stored.tenant_id, stored.enqueued_by, stored.traceparent) == (None, None, None)


def test_enqueue_answers_the_new_run(send: Handle) -> None:
    """A new job is ready, no duplicate, and has both of its ids."""
    handle = send.enqueue(7, note="x")

    stored = row(handle)
    assert (handle.id, handle.run_id) == (stored.id, stored.run_id)
    assert (handle.deduped, handle.state, handle.same_input) == (False, JobState.READY, True)
    assert handle.id != handle.run_id


def test_enqueue_is_one_statement(send: Handle) -> None:
    """One job costs one round trip."""
    assert len(queries(lambda: send.enqueue(n=1))) == 1


def test_enqueue_by_place_and_by_name_is_the_same(send: Handle) -> None:
    """Inputs are named by the function's own parameters."""
    assert row(send.enqueue(1, "x")).payload == row(send.enqueue(n=2, note="x")).payload | {"n": 1}


@settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(10**40), 10**40)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.text(
                    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=4
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=10,
    )
)
def test_enqueue_of_any_json_value_reaches_the_body_unchanged(take: Handle, value: Any) -> None:
    """What went through jsonb and back equals what was passed."""
    handle = take.using(queue="q").enqueue(value=value)

    claimed = claim("tests.take", "q")
    end(claimed)

    assert claimed.id == handle.id
    back = take.definition.schema.decode(claimed.payload)["value"]
    assert back == value
    assert type(back) is type(value)


class Colour(enum.StrEnum):
    RED = "red"


@dataclass
class Line:
    amount: Decimal
    on: date


def test_enqueue_of_typed_values_reaches_the_body_unchanged() -> None:
    """Dates, decimals, ids, enums and dataclasses come back as what they were."""

    @job(key="typed", name="tests.typed", queue="q")
    def typed(
        ctx: Any, at: datetime, who: UUID, colour: Colour, lines: list[Line], tags: set[str]
    ) -> None: ...

    inputs = {
        "at": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        "who": uuid4(),
        "colour": Colour.RED,
        "lines": [Line(Decimal("1.10"), date(2026, 1, 1))],
        "tags": {"a", "b"},
    }
    typed.enqueue(**inputs)

    claimed = claim("tests.typed", "q")

    assert typed.definition.schema.decode(claimed.payload) == inputs


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "\\u0000", "a'b\"c", "%s %(x)s {} \\", "💶"])
def test_enqueue_of_odd_text_stores_it_as_text(take: Handle, value: str) -> None:
    """Words, escapes and percent signs are text like any other, in payload, key and tenant."""
    handle = take.using(tenant=value).enqueue(value=value)

    assert row(handle).payload == {"value": value}
    assert row(handle).tenant_id == value


def test_enqueue_of_safe_strings_stores_plain_text() -> None:
    """A rendered template is text, as an input, a key, a tenant and a queue."""

    @job(key=lambda text: mark_safe("<k>"), name="tests.safe")
    def safe(ctx: Any, text: str) -> None: ...

    handle = safe.using(tenant=mark_safe("<t>"), queue=mark_safe("<q>")).enqueue(
        text=mark_safe("<b>")
    )

    record = get(handle.id, tenant="<t>")
    for stored in (record.key, record.tenant, record.queue, record.payload):
        assert not isinstance(stored, SafeString)
    assert (record.key, record.tenant, record.queue) == ("<k>", "<t>", "<q>")
    assert json.loads(record.payload) == {"text": "<b>"}


def test_enqueue_with_an_enum_as_key_stores_its_text() -> None:
    """A StrEnum member is its text."""

    @job(key=lambda colour: colour, name="tests.enum")
    def paint(ctx: Any, colour: Colour) -> None: ...

    assert row(paint.enqueue(colour=Colour.RED)).idempotency_key == "red"


def incompressible(seed: int, size: int) -> str:
    letters = string.ascii_letters + string.digits
    return "".join(Random(seed).choices(letters, k=size))


def test_enqueue_at_every_limit_at_once_fits_all_indexes() -> None:
    """The documented maxima hold together, for text that does not compress."""
    name, tenant, key, queue = (
        incompressible(seed, MAX_BYTES[what])
        for seed, what in enumerate(["name", "tenant", "key", "queue"])
    )

    @job(key=lambda: key, name=name, queue=queue)
    def widest(ctx: Any) -> None: ...

    handle = widest.using(tenant=tenant).enqueue()
    again = widest.using(tenant=tenant).enqueue()

    assert (again.id, again.deduped) == (handle.id, True)
    claimed = claim(name, queue)
    end(claimed, dead=True)
    assert retry(handle.id, tenant=tenant).state is JobState.READY


def test_enqueue_of_the_largest_payload_is_stored(take: Handle) -> None:
    """A mebibyte is a mebibyte; one byte more is refused."""
    room = 1_048_576 - len('{"value":""}')

    handle = take.enqueue(value="x" * room)

    assert len(row(handle).payload["value"]) == room
    with pytest.raises(JobPayloadTooLarge):
        take.enqueue(value="x" * (room + 1))


def test_enqueue_follows_the_setting_of_the_size() -> None:
    """The limit is a setting, read at each call."""

    @job(key="small", name="tests.small")
    def small(ctx: Any, text: str) -> None: ...

    with override_settings(ULTIMATE_JOBS={"MAX_PAYLOAD_BYTES": 20}):
        with pytest.raises(JobPayloadTooLarge):
            small.enqueue(text="x" * 10)
        handle = small.enqueue(text="x" * 9)

    assert row(handle).payload == {"text": "x" * 9}


# --- refused inputs --------------------------------------------------------------------------

REFUSED: list[tuple[str, Callable[[Handle, Handle], Any], type[UltimateJobsError]]] = [
    ("missing input", lambda send, take: send.enqueue(), JobInputInvalid),
    ("wrong type", lambda send, take: send.enqueue(n="1"), JobInputInvalid),
    ("model instance", lambda send, take: take.enqueue(value=Document(pk=1)), JobPayloadInvalid),
    ("queryset", lambda send, take: take.enqueue(value=Document.objects.all()), JobPayloadInvalid),
    ("NUL", lambda send, take: take.enqueue(value="a\x00"), JobPayloadInvalid),
    ("surrogate", lambda send, take: take.enqueue(value="\ud800"), JobPayloadInvalid),
    ("NaN", lambda send, take: take.enqueue(value=[float("nan")]), JobPayloadInvalid),
    ("too large", lambda send, take: take.enqueue(value="x" * 2_000_000), JobPayloadTooLarge),
    ("tenant NUL", lambda send, take: send.using(tenant="a\x00").enqueue(n=1), JobKeyInvalid),
    ("queue NUL", lambda send, take: send.using(queue="a\x00").enqueue(n=1), JobKeyInvalid),
    ("one of many", lambda send, take: send.enqueue_many([{"n": 1}, {"n": "x"}]), JobInputInvalid),
    ("no mapping", lambda send, take: send.enqueue_many([{"n": 1}, 5]), JobInputInvalid),
]


@pytest.mark.parametrize(("kind", "act", "error"), REFUSED, ids=[kind for kind, _, _ in REFUSED])
def test_enqueue_of_a_refused_input_sends_nothing_to_the_database(
    kind: str,
    act: Callable[[Handle, Handle], Any],
    error: type[UltimateJobsError],
    send: Handle,
    take: Handle,
) -> None:
    """The caller's transaction is not touched, so that it goes on as before."""
    Document.objects.create(name="before")

    def refused() -> None:
        with pytest.raises(error):
            act(send, take)

    assert queries(refused) == []
    Document.objects.create(name="after")
    assert Document.objects.count() == 2
    assert Row.objects.count() == 0


@pytest.mark.parametrize("key", ["a\x00", "\ud800", "", "x" * 1025, 5, None])
def test_enqueue_with_a_refused_key_sends_nothing_to_the_database(key: Any) -> None:
    """A computed key is checked like an input."""

    @job(key=lambda: key, name="tests.key")
    def keyed(ctx: Any) -> None: ...

    def refused() -> None:
        with pytest.raises(JobKeyInvalid):
            keyed.enqueue()

    assert queries(refused) == []


# --- transactions ----------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_enqueue_outside_of_a_transaction_is_committed(send: Handle) -> None:
    """In autocommit the job is there for every worker at once."""
    handle = send.enqueue(n=1)

    assert not connection.in_atomic_block
    assert row(handle).state == "ready"


@pytest.mark.django_db(transaction=True)
def test_enqueue_in_a_transaction_that_rolls_back_leaves_nothing(send: Handle) -> None:
    """A job exists exactly if the data it was enqueued with exists."""
    with transaction.atomic():
        Document.objects.create(name="data")
        handle = send.enqueue(n=1)
        transaction.set_rollback(True)

    assert (Row.objects.count(), Document.objects.count()) == (0, 0)
    with pytest.raises(JobNotFound):
        get(handle.id, tenant=None)
    assert send.enqueue(n=1).deduped is False


@pytest.mark.django_db(transaction=True)
def test_enqueue_in_a_savepoint_that_rolls_back_leaves_the_rest(send: Handle) -> None:
    """Each job goes with the innermost block that it was enqueued in."""
    with transaction.atomic():
        kept = send.enqueue(n=1)
        with transaction.atomic():
            send.enqueue(n=2)
            transaction.set_rollback(True)

    assert [stored.id for stored in Row.objects.all()] == [kept.id]


@pytest.mark.django_db(transaction=True)
def test_enqueue_answers_inside_the_transaction_the_id_that_runs(send: Handle) -> None:
    """A caller stores the id beside its own data, in one transaction."""
    with transaction.atomic():
        handle = send.enqueue(n=1)
        Document.objects.create(name=str(handle.id))

    claimed = claim()
    assert claimed.id == handle.id == UUID(Document.objects.get().name)
    assert claimed.run_id == handle.run_id


@pytest.mark.parametrize("turn", [1, 2])
def test_enqueue_in_a_testcase_leaves_no_key_to_the_next_test(send: Handle, turn: int) -> None:
    """A test that never commits finds its jobs, and the test after it does not."""
    handle = send.enqueue(n=1)

    assert handle.deduped is False
    assert row(handle).state == "ready"


@pytest.mark.django_db(transaction=True)
def test_enqueue_registers_nothing_that_an_apps_callbacks_could_trip_over(send: Handle) -> None:
    """Callbacks before and after an enqueue all run, in order; ours is one, and robust."""
    ran: list[str] = []

    with transaction.atomic():
        transaction.on_commit(lambda: ran.append("before"))
        send.enqueue(n=1)
        transaction.on_commit(lambda: ran.append("after"))
        send.enqueue(n=2)
        robust = [is_robust for _, _, is_robust in connection.run_on_commit]

    assert ran == ["before", "after"]
    assert robust == [False, True, False]


# --- dedupe ----------------------------------------------------------------------------------


def test_enqueue_with_a_held_key_answers_the_live_job(send: Handle) -> None:
    """The second caller gets the first one's job, and its own ids are nowhere."""
    first = send.enqueue(n=1)
    second = send.enqueue(n=1)

    assert (second.id, second.run_id) == (first.id, first.run_id)
    assert (second.deduped, second.same_input) == (True, True)
    assert Row.objects.count() == 1


def test_enqueue_with_a_held_key_and_other_inputs_says_so(send: Handle) -> None:
    """The caller learns that the job which will run has other inputs than its own."""
    send.enqueue(n=1)
    second = send.enqueue(n=1, note="other")

    assert (second.deduped, second.same_input) == (True, False)
    assert row(second).payload["note"] == ""


def test_enqueue_with_the_same_inputs_in_another_order_is_the_same_input(take: Handle) -> None:
    """The order of a mapping is no difference."""
    take.enqueue(value={"a": 1, "b": [1, 2]})

    assert take.enqueue(value={"b": [1, 2], "a": 1}).same_input is True
    assert take.enqueue(value={"b": [2, 1], "a": 1}).same_input is False


@pytest.mark.parametrize(
    "options", [{"run_after": MINUTE}, {"priority": 9}, {"queue": "elsewhere"}], ids=str
)
def test_enqueue_with_a_held_key_and_other_options_is_deduped(
    send: Handle, options: dict[str, Any]
) -> None:
    """Neither the queue nor the time nor the priority is part of the key."""
    first = send.using(**options).enqueue(n=1)
    second = send.enqueue(n=1)

    assert second.id == first.id
    assert second.state is (JobState.DELAYED if "run_after" in options else JobState.READY)


@pytest.mark.parametrize("state", LIVE)
def test_enqueue_with_a_key_held_in_any_live_state_is_deduped(
    send: Handle, state: JobState
) -> None:
    """Ready, delayed, running and suspended all hold the key, and the answer says which."""
    holder = JobFactory(name="tests.send", idempotency_key="invoice:1", state=state.value)

    handle = send.enqueue(n=1)

    assert (handle.id, handle.deduped, handle.state) == (holder.id, True, state)


@pytest.mark.parametrize("state", FINAL)
def test_enqueue_with_a_key_of_an_ended_job_is_a_new_job(send: Handle, state: JobState) -> None:
    """After the end the key is free again."""
    JobFactory(name="tests.send", idempotency_key="invoice:1", state=state.value)

    assert send.enqueue(n=1).deduped is False


def test_enqueue_of_two_jobs_with_one_key_is_two_jobs(send: Handle) -> None:
    """A key belongs to the name."""

    @job(key="invoice:{n}", name="tests.other")
    def other(ctx: Any, n: int) -> None: ...

    assert send.enqueue(n=1).id != other.enqueue(n=1).id


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "b:c"), ("a:b", "c")),
        (("a", "x"), ("A", "x")),
        (("a", "x"), ("a", "X")),
        (("a", "x"), ("a", "x ")),
        (("a", "\u00e9"), ("a", "e\u0301")),
        (("a", "x" * 299 + "1"), ("a", "x" * 299 + "2")),
        ((None, "x"), ("None", "x")),
        ((None, "x"), (" ", "x")),
    ],
)
def test_enqueue_of_different_tenants_and_keys_is_two_jobs(
    one: tuple[Any, str], other: tuple[Any, str]
) -> None:
    """Two identities are one only if they are equal byte for byte."""

    @job(key=lambda key: key, name="tests.identity")
    def identified(ctx: Any, key: str) -> None: ...

    handles = [identified.using(tenant=tenant).enqueue(key=key) for tenant, key in (one, other)]

    assert [handle.deduped for handle in handles] == [False, False]


def test_enqueue_with_an_empty_tenant_shares_the_tenantless_namespace(send: Handle) -> None:
    """``""`` is stored as NULL, and both spellings meet."""
    first = send.using(tenant="").enqueue(n=1)
    second = send.using(tenant=None).enqueue(n=1)

    assert row(first).tenant_id is None
    assert second.id == first.id


def test_enqueue_never_answers_another_tenants_job(send: Handle) -> None:
    """Nobody learns of, or is handed, what another tenant enqueued."""
    ids = [send.using(tenant=tenant).enqueue(n=1).id for tenant in ("acme", "globex", None)]
    again = [send.using(tenant=tenant).enqueue(n=1).id for tenant in ("acme", "globex", None)]

    assert len(set(ids)) == 3
    assert again == ids


def test_enqueue_with_on_conflict_error_names_the_holder_and_writes_nothing(send: Handle) -> None:
    """The refusal tells which job to look at; the transaction is still usable."""
    holder = send.enqueue(n=1)

    with pytest.raises(JobDuplicate) as caught:
        send.using(on_conflict="error").enqueue(n=1, note="x")

    assert caught.value.job_id == str(holder.id)
    assert str(holder.id) in caught.value.fix
    assert "invoice:1" not in str(caught.value)
    assert Row.objects.count() == 1


def test_enqueue_with_on_conflict_error_and_a_free_key_is_a_new_job(send: Handle) -> None:
    """The option says what to do on a conflict, and nothing else."""
    assert send.using(on_conflict="error").enqueue(n=1).deduped is False


# --- options ---------------------------------------------------------------------------------


def test_enqueue_using_priority_zero_overrides_the_declared_one(send: Handle) -> None:
    """0 is a priority like any other."""
    assert row(send.using(priority=0).enqueue(n=1)).priority == 0


@pytest.mark.parametrize("wait", [timedelta(0), timedelta(seconds=-5), timedelta.min])
def test_enqueue_using_no_wait_is_ready(send: Handle, wait: timedelta) -> None:
    """A wait of nothing, or a moment that has passed, is now."""
    handle = send.using(run_after=wait).enqueue(n=1)

    assert handle.state is JobState.READY
    assert claim().id == handle.id


def test_enqueue_using_a_wait_counts_from_the_databases_now(send: Handle) -> None:
    """An app server whose clock is wrong delays nothing wrongly."""
    with connection.cursor() as cursor:
        cursor.execute("select set_config('ultimate_jobs.clock_offset', '3 days', true)")
    before = database_now()
    handle = send.using(run_after=timedelta(hours=2)).enqueue(n=1)
    after = database_now()

    stored = row(handle)

    assert handle.state is JobState.DELAYED
    assert before + timedelta(hours=2) <= stored.run_at <= after + timedelta(hours=2)
    assert stored.due_at == stored.run_at
    assert stored.run_at > datetime.now(UTC) + timedelta(days=2)


@pytest.mark.parametrize("wait", [timedelta(milliseconds=1500), timedelta(days=36_525)])
def test_enqueue_using_a_wait_keeps_it_to_the_millisecond(send: Handle, wait: timedelta) -> None:
    """Neither a fraction of a second nor a century is lost, and both can be read back."""
    with transaction.atomic(), connection.cursor() as cursor:
        handle = send.using(run_after=wait).enqueue(n=1)
        cursor.execute("select run_at - created_at from x_jobs where id = %s", [handle.id])
        stored = cursor.fetchone()[0]

    assert abs(stored - wait) < timedelta(seconds=1)
    assert get(handle.id, tenant=None).state is JobState.DELAYED


def test_enqueue_using_a_moment_is_not_before_it(send: Handle) -> None:
    """An aware datetime is taken as the instant it names."""
    moment = database_now() + timedelta(days=1)

    handle = send.using(run_after=moment).enqueue(n=1)

    assert (handle.state, row(handle).run_at) == (JobState.DELAYED, moment)


@pytest.mark.parametrize(
    "moment", [datetime(2001, 1, 1, tzinfo=UTC), datetime.min.replace(tzinfo=UTC)], ids=str
)
def test_enqueue_using_a_moment_that_has_passed_is_owed_since_now(
    send: Handle, moment: datetime
) -> None:
    """A job is not late by the years before anybody asked for it."""
    before = database_now()
    handle = send.using(run_after=moment).enqueue(n=1)

    assert handle.state is JobState.READY
    assert row(handle).due_at >= before


def test_enqueue_using_a_moment_at_the_end_of_the_range_can_be_read(send: Handle) -> None:
    """The last allowed instant passes through the driver and back."""
    handle = send.using(run_after=datetime(9000, 1, 1, tzinfo=UTC)).enqueue(n=1)

    assert get(handle.id, tenant=None).run_at == datetime(9000, 1, 1, tzinfo=UTC)


def test_enqueue_using_another_queue_goes_there(send: Handle) -> None:
    """The declared queue is a default."""
    assert row(send.using(queue="slow").enqueue(n=1)).queue == "slow"


def test_enqueue_of_a_job_without_a_queue_goes_to_the_default() -> None:
    """The setting names the queue of whatever names none."""
    with override_settings(ULTIMATE_JOBS={"DEFAULT_QUEUE": "general"}):

        @job(key="x", name="tests.plain")
        def plain(ctx: Any) -> None: ...

    assert row(plain.enqueue()).queue == "general"


# --- who enqueued it -------------------------------------------------------------------------


@pytest.fixture
def inside(send: Handle) -> Iterator[JobContext]:
    """The body of a running job."""
    send.using(traceparent=TRACE).enqueue(n=0)
    context = JobContext(claim())
    enter_context(context)
    yield context
    enter_context(None)


def test_enqueue_inside_a_body_says_by_whom_and_in_which_trace(
    send: Handle, inside: JobContext
) -> None:
    """A child job leads back to its parent, and continues its trace."""
    stored = row(send.enqueue(n=1))

    assert stored.enqueued_by == f"job:{inside.job_id}"
    assert stored.traceparent == TRACE


def test_enqueue_inside_a_body_using_a_trace_of_its_own_takes_that(
    send: Handle, inside: JobContext
) -> None:
    """What is said wins over what is inherited."""
    assert row(send.using(traceparent=OTHER_TRACE).enqueue(n=1)).traceparent == OTHER_TRACE


def test_aenqueue_inside_a_body_says_by_whom(send: Handle, inside: JobContext) -> None:
    """The async twin knows its run as well."""
    handle = async_to_sync(send.aenqueue)(n=1)

    assert row(handle).enqueued_by == f"job:{inside.job_id}"


# --- enqueue_many ----------------------------------------------------------------------------


def test_enqueue_many_answers_in_the_order_of_the_inputs(send: Handle) -> None:
    """The nth answer is for the nth input, whatever order the keys are taken in."""
    numbers = Random(7).sample(range(1000, 2000), 300)

    handles = send.enqueue_many([{"n": n} for n in numbers])

    stored = {one.id: one.payload["n"] for one in Row.objects.all()}
    assert [stored[handle.id] for handle in handles] == numbers


def test_enqueue_many_takes_the_keys_in_one_order_for_every_caller(send: Handle) -> None:
    """Two lists that share keys cannot deadlock, in whatever order they were given."""
    numbers = Random(11).sample(range(100_000, 200_000), 50)

    send.enqueue_many([{"n": n} for n in numbers])

    with connection.cursor() as cursor:
        cursor.execute("select idempotency_key from x_jobs order by ctid")
        written = [key for (key,) in cursor.fetchall()]
    assert written == sorted(written)


def test_enqueue_many_of_held_and_free_keys_answers_each(send: Handle) -> None:
    """One duplicate is an answer and aborts nothing."""
    held = send.enqueue(n=2)

    handles = send.enqueue_many([{"n": 1}, {"n": 2}, {"n": 3}])

    assert [handle.deduped for handle in handles] == [False, True, False]
    assert handles[1].id == held.id
    assert Row.objects.count() == 3


def test_enqueue_many_with_a_key_twice_stores_the_first(send: Handle) -> None:
    """Within one list the first of two is stored, and the second is answered with it."""
    first, second, third = send.enqueue_many(
        [{"n": 4, "note": "first"}, {"n": 4, "note": "second"}, {"n": 5}]
    )

    assert (first.deduped, second.deduped, third.deduped) == (False, True, False)
    assert second.id == first.id
    assert (first.same_input, second.same_input) == (True, False)
    assert row(first).payload["note"] == "first"


def test_enqueue_many_of_2500_inputs_takes_three_inserts(send: Handle) -> None:
    """One round trip per thousand, beside the savepoint that keeps them together."""
    handles: list[RunHandle] = []

    sent = queries(lambda: handles.extend(send.enqueue_many([{"n": n} for n in range(2500)])))

    inserts = [sql for sql in sent if "insert into x_jobs" in sql]
    assert len(inserts) == 3
    assert len(sent) <= 5
    assert len({handle.id for handle in handles}) == 2500 == Row.objects.count()


def test_enqueue_many_of_a_thousand_inputs_is_one_statement(send: Handle) -> None:
    """A list that fits one statement needs no transaction around it."""
    assert len(queries(lambda: send.enqueue_many([{"n": n} for n in range(1000)]))) == 1


def test_enqueue_many_over_chunks_with_held_keys_answers_in_order(send: Handle) -> None:
    """Duplicates on both sides of a chunk's border find their holders."""
    inputs = [{"n": n % 1500} for n in range(2400)]

    handles = send.enqueue_many(inputs)

    stored = {one.id: one.payload["n"] for one in Row.objects.all()}
    assert [stored[handle.id] for handle in handles] == [one["n"] for one in inputs]
    assert [handle.deduped for handle in handles] == [n >= 1500 for n in range(2400)]


def test_enqueue_many_takes_a_generator_once(send: Handle) -> None:
    """Inputs may be made while they are read."""
    made: list[int] = []

    def inputs() -> Iterator[dict[str, int]]:
        for n in range(3):
            made.append(n)
            yield {"n": n}

    handles = send.enqueue_many(inputs())

    assert [row(handle).payload["n"] for handle in handles] == [0, 1, 2]
    assert made == [0, 1, 2]


@pytest.mark.parametrize("empty", [[], (), iter(())])
def test_enqueue_many_of_nothing_does_nothing(send: Handle, empty: Any) -> None:
    """No input, no answer, no query."""
    assert queries(lambda: send.enqueue_many(empty)) == []
    assert send.enqueue_many([]) == []


@pytest.mark.parametrize("place", [0, 1200, 2499])
def test_enqueue_many_with_one_refused_input_writes_nothing(send: Handle, place: int) -> None:
    """Every input is checked before the first is written."""
    inputs: list[dict[str, Any]] = [{"n": n} for n in range(2500)]
    inputs[place] = {"n": "x"}

    with pytest.raises(JobInputInvalid):
        send.enqueue_many(inputs)

    assert Row.objects.count() == 0


def test_enqueue_many_whose_inputs_raise_writes_nothing(send: Handle) -> None:
    """An error of the caller's own generator passes through, before anything is written."""

    def inputs() -> Iterator[dict[str, int]]:
        yield {"n": 1}
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        send.enqueue_many(inputs())

    assert Row.objects.count() == 0


@pytest.mark.parametrize("count", [3, 1500])
@pytest.mark.parametrize("transactional", [False, True])
def test_enqueue_many_with_on_conflict_error_writes_all_or_nothing(
    send: Handle, count: int, transactional: bool, request: pytest.FixtureRequest
) -> None:
    """One held key refuses the whole list, and the caller's transaction goes on."""
    held = send.enqueue(n=count - 1)
    Document.objects.create(name="before")

    with pytest.raises(JobDuplicate) as caught:
        send.using(on_conflict="error").enqueue_many([{"n": n} for n in range(count)])

    assert caught.value.job_id == str(held.id)
    assert Row.objects.count() == 1
    assert Document.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_enqueue_many_with_on_conflict_error_in_autocommit_writes_all_or_nothing(
    send: Handle,
) -> None:
    """The list is one transaction of its own where the caller has none."""
    send.enqueue(n=2)

    with pytest.raises(JobDuplicate):
        send.using(on_conflict="error").enqueue_many([{"n": n} for n in range(3)])

    assert Row.objects.count() == 1


def test_enqueue_many_with_on_conflict_error_and_a_key_twice_is_refused(send: Handle) -> None:
    """Two of one key in a list conflict with each other."""
    with pytest.raises(JobDuplicate):
        send.using(on_conflict="error").enqueue_many([{"n": 1}, {"n": 1}])

    assert Row.objects.count() == 0


def test_enqueue_many_uses_the_options_for_each(send: Handle) -> None:
    """Options are of the call, inputs of each job."""
    handles = send.using(tenant="acme", priority=-1, run_after=MINUTE).enqueue_many(
        [{"n": 1}, {"n": 2}]
    )

    stored = [row(handle) for handle in handles]
    assert {(one.tenant_id, one.priority, one.state) for one in stored} == {("acme", -1, "delayed")}


def test_enqueue_many_of_one_input_is_like_enqueue(send: Handle) -> None:
    """A list of one is no special case for its caller."""
    [handle] = send.enqueue_many([{"n": 1}])

    assert send.enqueue(n=1).id == handle.id


# --- the async twins -------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_aenqueue_outside_of_a_transaction_is_committed(send: Handle) -> None:
    """The twin does what ``enqueue`` does."""
    handle = async_to_sync(send.aenqueue)(7, note="x")

    assert row(handle).payload == {"n": 7, "note": "x"}


@pytest.mark.django_db(transaction=True)
def test_aenqueue_inside_a_transaction_goes_with_it(send: Handle) -> None:
    """Under a sync caller's atomic() the twin writes on that caller's connection."""
    with transaction.atomic():
        handle = async_to_sync(send.aenqueue)(n=1)
        seen = row(handle).state
        transaction.set_rollback(True)

    assert seen == "ready"
    assert Row.objects.count() == 0


def test_aenqueue_many_answers_in_the_order_of_the_inputs(send: Handle) -> None:
    """The twin of the list, with a duplicate inside."""
    handles = async_to_sync(send.aenqueue_many)([{"n": 3}, {"n": 1}, {"n": 3}])

    assert [row(handle).payload["n"] for handle in handles] == [3, 1, 3]
    assert [handle.deduped for handle in handles] == [False, False, True]


def test_aenqueue_of_a_refused_input_raises_the_same(send: Handle) -> None:
    """The refusal crosses to the event loop as it is."""
    with pytest.raises(JobInputInvalid):
        async_to_sync(send.aenqueue)(n="x")


# --- get, cancel, retry ----------------------------------------------------------------------

VERBS: list[tuple[str, Callable[..., Any]]] = [("get", get), ("cancel", cancel), ("retry", retry)]


def stored_for(tenant: str | None, verb: str) -> UUID:
    """Return a job of the tenant that the verb applies to."""
    state = JobState.DEAD if verb == "retry" else JobState.READY
    stored: UUID = JobFactory(tenant_id=tenant, state=state.value).id
    return stored


@pytest.mark.parametrize(("verb", "act"), VERBS, ids=[verb for verb, _ in VERBS])
@pytest.mark.parametrize(
    ("owner", "asked"),
    [(None, "acme"), ("acme", None), ("acme", ""), ("acme", "globex"), ("acme", "ACME")],
)
def test_verb_within_another_tenant_finds_nothing_and_changes_nothing(
    verb: str, act: Callable[..., Any], owner: str | None, asked: str | None
) -> None:
    """Another tenant's id is like no id, and ``None`` looks at the tenantless only."""
    job_id = stored_for(owner, verb)
    before = Row.objects.filter(pk=job_id).values().get()

    with pytest.raises(JobNotFound):
        act(job_id, tenant=asked)

    assert Row.objects.filter(pk=job_id).values().get() == before


@pytest.mark.parametrize(("verb", "act"), VERBS, ids=[verb for verb, _ in VERBS])
@pytest.mark.parametrize(
    ("owner", "asked"),
    [(None, None), (None, ""), (None, ANY_TENANT), ("acme", "acme"), ("acme", ANY_TENANT)],
    ids=str,
)
def test_verb_within_its_own_or_any_tenant_finds_the_job(
    verb: str, act: Callable[..., Any], owner: str | None, asked: Any
) -> None:
    """An operator's surface passes ANY_TENANT, everybody else their own."""
    job_id = stored_for(owner, verb)

    assert act(job_id, tenant=asked).id == job_id


@pytest.mark.parametrize(("verb", "act"), VERBS, ids=[verb for verb, _ in VERBS])
@pytest.mark.parametrize(
    "tenant", [0, False, 5, b"acme", "a\x00", "\ud800", "x" * 256, []], ids=str
)
def test_verb_within_what_is_no_tenant_is_refused(
    verb: str, act: Callable[..., Any], tenant: Any
) -> None:
    """A falsy value that is no tenant never means "tenantless", and no query breaks."""
    job_id = stored_for(None, verb)
    before = Row.objects.filter(pk=job_id).values().get()

    with pytest.raises(JobKeyInvalid) as caught:
        act(job_id, tenant=tenant)

    assert "the tenant" in caught.value.cause
    assert Row.objects.filter(pk=job_id).values().get() == before


@pytest.mark.parametrize(("verb", "act"), VERBS, ids=[verb for verb, _ in VERBS])
def test_verb_without_a_tenant_is_refused(verb: str, act: Callable[..., Any]) -> None:
    """Which tenant is never left to a default."""
    with pytest.raises(TypeError, match="tenant"):
        act(uuid4())


@pytest.mark.parametrize(("verb", "act"), VERBS, ids=[verb for verb, _ in VERBS])
@pytest.mark.parametrize("job_id", [uuid4(), str(uuid4()), "nope", "", 5, None, b"x", "a\x00"])
def test_verb_on_what_is_no_id_finds_nothing(
    verb: str, act: Callable[..., Any], job_id: Any
) -> None:
    """Whatever a URL carried, the answer is "not found" and no query breaks."""
    with pytest.raises(JobNotFound):
        act(job_id, tenant=ANY_TENANT)

    assert Row.objects.count() == 0


@pytest.mark.parametrize(("verb", "act"), VERBS, ids=[verb for verb, _ in VERBS])
def test_verb_takes_an_id_as_text(verb: str, act: Callable[..., Any]) -> None:
    """An id from a URL or a log is text."""
    job_id = stored_for(None, verb)

    assert act(str(job_id), tenant=None).id == job_id


def test_get_shows_the_whole_job(send: Handle) -> None:
    """What was asked for can be read back."""
    handle = send.using(tenant="acme").enqueue(n=1)

    record = get(handle.id, tenant="acme")

    assert (record.name, record.key, record.tenant) == ("tests.send", "invoice:1", "acme")
    assert json.loads(record.payload) == {"n": 1, "note": ""}
    assert record.state is JobState.READY


def test_cancel_of_a_waiting_job_ends_it_and_frees_its_key(send: Handle) -> None:
    """A waiting job ends at once."""
    handle = send.enqueue(n=1)

    answer = cancel(handle.id, tenant=None, by="user:7")

    assert (answer.outcome, answer.state) == (CancelOutcome.CANCELLED, JobState.CANCELLED)
    assert send.enqueue(n=1).deduped is False


def test_cancel_of_a_running_job_asks_it_to_stop_and_keeps_its_key(send: Handle) -> None:
    """A running job keeps its key until its body stops."""
    handle = send.enqueue(n=1)
    claim()

    answer = cancel(handle.id, tenant=None)

    assert (answer.outcome, answer.state) == (CancelOutcome.REQUESTED, JobState.RUNNING)
    assert send.enqueue(n=1).id == handle.id


def test_cancel_of_an_ended_job_says_so(send: Handle) -> None:
    """What has ended cannot be cancelled, and that is no error."""
    handle = send.enqueue(n=1)
    end(claim())

    answer = cancel(handle.id, tenant=None)

    assert (answer.outcome, answer.state) == (CancelOutcome.ALREADY_FINAL, JobState.COMPLETED)


def test_retry_of_a_dead_job_keeps_its_ids_and_its_key(send: Handle) -> None:
    """An operator's retry is the same run with all attempts anew."""
    handle = send.enqueue(n=1)
    end(claim(), dead=True)

    record = retry(handle.id, tenant=None)

    assert (record.id, record.run_id, record.key) == (handle.id, handle.run_id, "invoice:1")
    assert (record.state, record.attempt, record.retry_count) == (JobState.READY, 0, 1)


def test_retry_fresh_starts_another_run_of_the_job(send: Handle) -> None:
    """A fresh retry has a run id of its own, and is the only one of a completed job."""
    handle = send.enqueue(n=1)
    end(claim())

    with pytest.raises(JobStateRefused):
        retry(handle.id, tenant=None)
    record = retry(handle.id, tenant=None, fresh=True)

    assert record.id == handle.id
    assert record.run_id != handle.run_id
    assert record.result is None


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("state", LIVE)
def test_retry_of_a_live_job_is_refused(state: JobState, fresh: bool) -> None:
    """What is live needs no retry."""
    stored = JobFactory(state=state.value)

    with pytest.raises(JobStateRefused) as caught:
        retry(stored.id, tenant=None, fresh=fresh)

    assert state.value in caught.value.cause


def test_retry_of_a_job_whose_key_is_held_names_the_holder(send: Handle) -> None:
    """A newer job of the key wins, the old one stays as it is, and the transaction is usable."""
    old = send.enqueue(n=1)
    end(claim(), dead=True)
    newer = send.using(run_after=timedelta(hours=1)).enqueue(n=1)

    with pytest.raises(JobDuplicate) as caught:
        retry(old.id, tenant=None)

    assert caught.value.job_id == str(newer.id)
    assert (row(old).state, row(old).retry_count) == ("dead", 0)


# --- routers ---------------------------------------------------------------------------------


class ReplicaRouter:
    """Sends reads where nothing is, as a project with a lagging replica does."""

    def db_for_read(self, model: type, **hints: Any) -> str:
        return "other"

    def db_for_write(self, model: type, **hints: Any) -> str:
        return "other"


@pytest.mark.django_db(databases=["default", "other"])
def test_no_verb_follows_a_router_to_a_replica(send: Handle) -> None:
    """Dedupe, claims and reads go to the queue's own database, where the row is."""
    with (
        override_settings(DATABASE_ROUTERS=["tests.services.test_jobs.ReplicaRouter"]),
        CaptureQueriesContext(connections["other"]) as elsewhere,
    ):
        handle = send.enqueue(n=1)
        again = send.enqueue(n=1)
        found = get(handle.id, tenant=None)
        listed = current_driver().introspection.find(JobFilter(name="tests.send"), limit=5)
        current_driver().introspection.stats()
        end(claim(), dead=True)
        retry(handle.id, tenant=None)
        cancel(handle.id, tenant=None)
        events = current_driver().introspection.events(handle.id)

    assert elsewhere.captured_queries == []
    assert again.id == handle.id == found.id
    assert [one.id for one in listed] == [handle.id]
    assert [event.type for event in events] == ["dead", "retried", "cancelled"]
