"""Enqueue: what is stored, what is answered, and whose key it is."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from ultimate_jobs.clock import to_datetime
from ultimate_jobs.errors import JobDuplicate
from ultimate_jobs.ids import new_id
from ultimate_jobs.states import FINAL, LIVE, JobState
from ultimate_jobs.types import OnConflict

from .harness import MINUTE_MS, Harness


def test_enqueue_with_a_free_key_answers_the_new_job(driver: Harness) -> None:
    """A new job is answered by its own ids, ready, and no duplicate."""
    request = driver.request()

    [answer] = driver.ask(request)

    assert (answer.id, answer.run_id) == (request.id, request.run_id)
    assert (answer.deduped, answer.state, answer.same_input) == (False, JobState.READY, True)


def test_enqueue_with_every_field_stores_every_field(driver: Harness) -> None:
    """What was asked for is what is stored."""
    request = driver.request(
        tenant="acme",
        key="invoice:1 ünï\\",
        payload='{"text": "ünï \\" \\\\ 💶", "list": [1, 2.5, null, true]}',
        priority=-100,
        max_attempts=7,
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        enqueued_by="user:7",
    )

    with driver.timed() as span:
        driver.ask(request)

    job = driver.get(request.id)
    assert (job.id, job.run_id) == (request.id, request.run_id)
    assert (job.name, job.queue, job.tenant) == (driver.name, driver.queue, "acme")
    assert job.key == request.key
    assert json.loads(job.payload) == json.loads(request.payload)
    assert (job.priority, job.max_attempts) == (-100, 7)
    assert (job.traceparent, job.enqueued_by) == (request.traceparent, "user:7")
    assert span.covers(job.created_at)
    assert span.covers(job.updated_at)


def test_enqueue_of_a_new_job_counts_nothing_yet(driver: Harness) -> None:
    """A new job has used nothing and belongs to nobody."""
    job_id = driver.enqueue().id

    job = driver.get(job_id)

    assert (job.attempt, job.token, job.lost_leases, job.retry_count) == (0, 0, 0, 0)
    assert (job.worker, job.claimed_at, job.finished_at) == (None, None, None)
    assert (job.result, job.last_error, job.cancel_requested_at) == (None, None, None)
    assert job.rerun_requested is False


def test_enqueue_without_delay_is_due_now(driver: Harness) -> None:
    """A job with no start of its own is owed from the driver's now."""
    with driver.timed() as span:
        job_id = driver.enqueue().id

    job = driver.get(job_id)
    assert job.state is JobState.READY
    assert job.run_at == job.due_at
    assert span.covers(job.run_at)


def test_enqueue_with_delay_is_delayed_by_the_drivers_clock(driver: Harness) -> None:
    """A delay counts from the driver's now, and the job is delayed until then."""
    with driver.timed() as span:
        answer = driver.enqueue(delay_ms=90_000)

    job = driver.get(answer.id)
    assert (answer.state, job.state) == (JobState.DELAYED, JobState.DELAYED)
    assert job.run_at == job.due_at
    assert span.covers(job.run_at, plus_ms=90_000)


def test_enqueue_with_a_future_start_is_delayed_until_it(driver: Harness) -> None:
    """A start in the future is kept as it was given."""
    start = to_datetime(int(driver.now_ms())) + timedelta(hours=3)

    answer = driver.enqueue(run_after=start)

    job = driver.get(answer.id)
    assert (answer.state, job.state) == (JobState.DELAYED, JobState.DELAYED)
    assert job.run_at == job.due_at == start


def test_enqueue_with_a_past_start_is_due_now(driver: Harness) -> None:
    """A start that has passed gives the job no head start over what is owed."""
    start = to_datetime(int(driver.now_ms())) - timedelta(days=1)

    with driver.timed() as span:
        answer = driver.enqueue(run_after=start)

    job = driver.get(answer.id)
    assert answer.state is JobState.READY
    assert span.covers(job.run_at)
    assert span.covers(job.due_at)


@pytest.mark.parametrize("state", LIVE)
def test_enqueue_with_the_key_of_a_live_job_answers_that_job(
    driver: Harness, state: JobState
) -> None:
    """In whatever live state the holder is, a second enqueue answers it and stores nothing."""
    holder_id = driver.job_in(state, key="k")
    before = driver.get(holder_id)

    answer = driver.enqueue(key="k")

    assert (answer.id, answer.run_id) == (before.id, before.run_id)
    assert (answer.deduped, answer.state) == (True, state)
    assert driver.find() == [before]


@pytest.mark.parametrize("state", FINAL)
def test_enqueue_with_the_key_of_a_finished_job_stores_a_new_one(
    driver: Harness, state: JobState
) -> None:
    """However a job ended, its key is free again."""
    old_id = driver.job_in(state, key="k")
    old = driver.get(old_id)
    assert old.state is state

    answer = driver.enqueue(key="k")

    assert answer.deduped is False
    assert answer.id != old_id
    assert driver.get(old_id) == old


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ('{"a": 1, "b": [1, 2]}', '{"b":[1,2],"a":1}', True),
        ('{"a": "é"}', '{"a": "\\u00e9"}', True),
        ('{"a": 1}', '{"a": 1.0}', True),
        ('{"a": 1}', '{"a": 2}', False),
        ('{"a": 1}', '{"a": true}', False),
        ('{"a": 0}', '{"a": false}', False),
        ('{"a": 1}', '{"a": "1"}', False),
        ('{"a": null}', "{}", False),
        ('{"a": [1, 2]}', '{"a": [2, 1]}', False),
        ('{"a": 9007199254740993}', '{"a": 9007199254740992}', False),
    ],
)
@pytest.mark.parametrize("state", [JobState.READY, JobState.RUNNING])
def test_enqueue_of_a_duplicate_compares_inputs_by_value(
    driver: Harness, state: JobState, first: str, second: str, same: bool
) -> None:
    """A duplicate is told whether its inputs are the holder's, as JSON values and not as text."""
    driver.job_in(state, key="k", payload=first)

    answer = driver.enqueue(key="k", payload=second)

    assert answer.deduped is True
    assert answer.same_input is same


def test_enqueue_of_a_duplicate_keeps_the_first_inputs(driver: Harness) -> None:
    """A duplicate changes nothing of the job it met."""
    job_id = driver.enqueue(key="k", payload='{"n": 1}', priority=1).id

    driver.enqueue(key="k", payload='{"n": 2}', priority=9, delay_ms=MINUTE_MS)

    job = driver.get(job_id)
    assert json.loads(job.payload) == {"n": 1}
    assert (job.priority, job.state) == (1, JobState.READY)


def test_enqueue_in_another_queue_is_the_same_key(driver: Harness) -> None:
    """The queue is no part of a key's namespace."""
    job_id = driver.enqueue(key="k").id

    answer = driver.enqueue(key="k", queue=f"{driver.queue}-other")

    assert (answer.id, answer.deduped) == (job_id, True)


def test_enqueue_under_another_name_stores_its_own_job(driver: Harness) -> None:
    """Two jobs of different names never share a key."""
    first = driver.enqueue(key="k")

    second = driver.enqueue(key="k", name=f"{driver.name}_2")

    assert (first.deduped, second.deduped) == (False, False)
    assert first.id != second.id


def test_enqueue_by_another_tenant_stores_its_own_job(driver: Harness) -> None:
    """Each tenant has its own keys, and the tenantless have theirs."""
    requests = [driver.request(key="k", tenant=tenant) for tenant in (None, "a", "b")]

    answers = driver.ask(*requests)

    assert [answer.id for answer in answers] == [request.id for request in requests]
    assert [answer.deduped for answer in answers] == [False, False, False]
    assert {job.tenant for job in driver.find()} == {None, "a", "b"}


@pytest.mark.parametrize(("first", "second"), [(None, ""), ("", None), ("", "")])
def test_enqueue_with_the_empty_tenant_is_tenantless(
    driver: Harness, first: str | None, second: str | None
) -> None:
    """The empty tenant is no tenant: all of them share one namespace."""
    job_id = driver.enqueue(key="k", tenant=first).id

    answer = driver.enqueue(key="k", tenant=second)

    assert (answer.id, answer.deduped) == (job_id, True)
    assert driver.get(job_id).tenant is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("a", "b:c"), ("a:b", "c")),
        ((None, "k"), (None, "K")),
        ((None, "k"), (None, "k ")),
        ((None, "\u00e9"), (None, "e\u0301")),
        ((None, "x" * 300 + "1"), (None, "x" * 300 + "2")),
        (("a", "k"), ("A", "k")),
    ],
)
def test_enqueue_with_almost_the_same_key_stores_two_jobs(
    driver: Harness, first: tuple[str | None, str], second: tuple[str | None, str]
) -> None:
    """Keys and tenants are compared byte for byte; nothing is folded, trimmed or joined."""
    [one, two] = [driver.request(tenant=tenant, key=key) for tenant, key in (first, second)]

    answers = driver.ask(one, two)

    assert [answer.deduped for answer in answers] == [False, False]


def test_enqueue_of_a_list_answers_in_the_order_asked(driver: Harness) -> None:
    """Each answer stands where its request stood, whatever order the keys sort in."""
    requests = [driver.request(key=key) for key in ("m", "z", "a", "q", "b")]
    held = driver.enqueue(key="q")

    answers = driver.ask(*requests)

    expected = [request.id for request in requests]
    expected[3] = held.id
    assert [answer.id for answer in answers] == expected
    assert [answer.deduped for answer in answers] == [False, False, False, True, False]


def test_enqueue_of_a_list_with_one_key_twice_stores_the_first(driver: Harness) -> None:
    """Within one list, the first request of a key is stored and the rest are its duplicates."""
    first = driver.request(key="k", payload='{"n": 1}')
    again = driver.request(key="k", payload='{"n": 1}')
    other = driver.request(key="k", payload='{"n": 2}')

    answers = driver.ask(first, again, other)

    assert [answer.id for answer in answers] == [first.id] * 3
    assert [answer.run_id for answer in answers] == [first.run_id] * 3
    assert [answer.deduped for answer in answers] == [False, True, True]
    assert [answer.same_input for answer in answers[1:]] == [True, False]
    assert [job.id for job in driver.find()] == [first.id]


def test_enqueue_of_a_list_with_a_duplicate_stores_the_rest(driver: Harness) -> None:
    """One duplicate in a list costs the others nothing."""
    held = driver.enqueue(key="k2")
    requests = [driver.request(key=key) for key in ("k1", "k2", "k3", "k4", "k4", "k5")]

    answers = driver.ask(*requests)

    assert [answer.deduped for answer in answers] == [False, True, False, False, True, False]
    assert answers[1].id == held.id
    assert sorted(job.key for job in driver.find()) == ["k1", "k2", "k3", "k4", "k5"]


def test_enqueue_of_more_than_a_thousand_answers_each(driver: Harness) -> None:
    """However a driver cuts a long list, every request gets its own answer in its own place."""
    requests = [driver.request(key=f"k{n % 1500}") for n in range(2100)]

    answers = driver.ask(*requests)

    firsts = [requests[n % 1500].id for n in range(2100)]
    assert [answer.id for answer in answers] == firsts
    assert [answer.deduped for answer in answers] == [n >= 1500 for n in range(2100)]


def test_enqueue_of_nothing_answers_nothing(driver: Harness) -> None:
    """An empty list is answered by an empty list."""
    answers = [driver.ask(on_conflict=on_conflict) for on_conflict in OnConflict]

    assert answers == [[], [], []]


@pytest.mark.parametrize("state", LIVE)
def test_enqueue_refusing_duplicates_names_the_holder(driver: Harness, state: JobState) -> None:
    """With ERROR, a key that a live job holds is refused by a code, and the holder is named."""
    holder_id = driver.job_in(state, key="k")
    before = driver.get(holder_id)

    with pytest.raises(JobDuplicate) as refusal:
        driver.enqueue(key="k", on_conflict=OnConflict.ERROR)

    assert refusal.value.code == "X_JOB_DUPLICATE"
    assert refusal.value.job_id == str(holder_id)
    assert driver.find() == [before]


@pytest.mark.parametrize("position", [0, 1, 2])
def test_enqueue_refusing_duplicates_stores_nothing_of_the_list(
    driver: Harness, position: int
) -> None:
    """With ERROR, one held key refuses the whole list, wherever it stands."""
    holder = driver.enqueue(key="held")
    keys = ["a", "z"]
    keys.insert(position, "held")

    with pytest.raises(JobDuplicate):
        driver.ask(*(driver.request(key=key) for key in keys), on_conflict=OnConflict.ERROR)

    assert [job.id for job in driver.find()] == [holder.id]


def test_enqueue_after_a_refused_duplicate_goes_on(driver: Harness) -> None:
    """A refusal leaves the caller's transaction usable and the free keys free."""
    driver.enqueue(key="held")
    with pytest.raises(JobDuplicate):
        driver.ask(
            driver.request(key="free"), driver.request(key="held"), on_conflict=OnConflict.ERROR
        )

    answer = driver.enqueue(key="free", on_conflict=OnConflict.ERROR)

    assert answer.deduped is False


def test_enqueue_refusing_duplicates_refuses_a_key_asked_twice(driver: Harness) -> None:
    """With ERROR, a list that repeats a key is refused as a whole."""
    twice = [driver.request(key="k"), driver.request(key="other"), driver.request(key="k")]

    with pytest.raises(JobDuplicate):
        driver.ask(*twice, on_conflict=OnConflict.ERROR)

    assert driver.find() == []


def test_enqueue_refusing_duplicates_with_free_keys_stores_them(driver: Harness) -> None:
    """With ERROR, free keys are stored as always, those of finished jobs included."""
    driver.job_in(JobState.COMPLETED, key="done")
    requests = [driver.request(key=key) for key in ("done", "new")]

    answers = driver.ask(*requests, on_conflict=OnConflict.ERROR)

    assert [answer.id for answer in answers] == [request.id for request in requests]
    assert [answer.deduped for answer in answers] == [False, False]


def test_enqueue_by_another_tenant_is_never_told_the_holders_id(driver: Harness) -> None:
    """Neither an answer nor a refusal hands out another tenant's job."""
    theirs = driver.enqueue(key="k", tenant="a")

    ours = driver.enqueue(key="k", tenant="b", on_conflict=OnConflict.ERROR)

    assert ours.deduped is False
    assert ours.id != theirs.id


def test_enqueue_with_ids_given_keeps_them(driver: Harness) -> None:
    """The ids are the caller's: what it was told before the call stays true after it."""
    job_id, run_id = new_id(), new_id()

    answer = driver.enqueue(id=job_id, run_id=run_id)

    assert (answer.id, answer.run_id) == (job_id, run_id)
    assert driver.get(job_id).run_id == run_id
