"""using(): every option is checked when it is given, before anything is computed or written."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Any

import pytest
from django.utils.safestring import mark_safe

from ultimate_jobs import Job, OnConflict, job
from ultimate_jobs.errors import JobKeyInvalid, JobOptionInvalid, UltimateJobsError
from ultimate_jobs.services.options import LAST_START, MAX_DELAY

pytestmark = pytest.mark.usefixtures("own_registry")

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Floating(tzinfo):
    """A zone that knows no offset, so that the datetime is naive for all it matters."""

    def utcoffset(self, moment: datetime | None) -> None:
        return None


@pytest.fixture
def send() -> Job[Any, Any]:
    @job(key="x:{n}", name="tests.send", priority=5)
    def send(ctx: Any, n: int) -> None: ...

    return send


def refused(send: Job[Any, Any], **options: Any) -> UltimateJobsError:
    with pytest.raises((JobOptionInvalid, JobKeyInvalid)) as caught:
        send.using(**options)
    return caught.value


def test_using_returns_another_handle_and_leaves_the_first(send: Job[Any, Any]) -> None:
    """A handle is shared by the whole process; options belong to one call."""
    before = send._options

    other = send.using(priority=1)

    assert other is not send
    assert other.definition is send.definition
    assert send._options is before
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.priority = 3  # type: ignore[misc]


def test_using_twice_keeps_what_the_second_call_does_not_name(send: Job[Any, Any]) -> None:
    """Options add up, and the later one wins."""
    options = send.using(tenant="acme", priority=1).using(priority=2)._options

    assert (options.tenant, options.priority) == ("acme", 2)


def test_using_without_options_is_as_declared(send: Job[Any, Any]) -> None:
    """No option is none."""
    assert send.using()._options == send._options


@pytest.mark.parametrize(
    "option", ["tenant", "run_after", "priority", "queue", "alias", "traceparent"]
)
def test_using_none_takes_an_option_back(send: Job[Any, Any], option: str) -> None:
    """``None`` means as declared, for every option that has no other meaning of it."""
    assert getattr(send.using(**{option: None})._options, option) is None


@pytest.mark.parametrize("option", ["prio", "tenant_id", "key", "n", "retry"])
def test_using_an_unknown_option_is_refused_with_the_known_ones(
    send: Job[Any, Any], option: str
) -> None:
    """An input that was meant for enqueue(), or a misspelt option, is not ignored."""
    error = refused(send, **{option: 1})

    assert option in error.cause
    assert "tenant, run_after, priority, queue, alias, on_conflict, traceparent" in error.cause
    assert "send.using(" in error.fix


@pytest.mark.parametrize("priority", [-100, 0, 100])
def test_using_a_priority_of_the_range_keeps_it(send: Job[Any, Any], priority: int) -> None:
    """0 is a priority, and not the absence of one."""
    assert send.using(priority=priority)._options.priority == priority


@pytest.mark.parametrize("priority", [-101, 101, True, False, 1.0, "5"])
def test_using_a_priority_out_of_range_or_type_is_refused(
    send: Job[Any, Any], priority: Any
) -> None:
    """What the column's CHECK would refuse is refused here, in words."""
    assert "-100 to 100" in refused(send, priority=priority).cause


@pytest.mark.parametrize("tenant", ["", None])
def test_using_an_empty_tenant_is_none(send: Job[Any, Any], tenant: Any) -> None:
    """All tenantless jobs share one namespace, however their absence is spelled."""
    assert send.using(tenant=tenant)._options.tenant is None


@pytest.mark.parametrize("tenant", [0, False, 7, b"acme", "a\x00", "\ud800", "x" * 256, "é" * 128])
def test_using_a_tenant_that_cannot_be_stored_is_refused(send: Job[Any, Any], tenant: Any) -> None:
    """A falsy tenant that is no text is a mistake, and never "no tenant"."""
    error = refused(send, tenant=tenant)

    assert "the tenant" in error.cause


@pytest.mark.parametrize("queue", ["", 0, False, b"x", "a\x00", "x" * 128])
def test_using_a_queue_that_cannot_be_stored_is_refused(send: Job[Any, Any], queue: Any) -> None:
    """An empty queue is refused, and never replaced by the declared one."""
    assert "the queue" in refused(send, queue=queue).cause


@pytest.mark.parametrize(
    "moment",
    [
        timedelta(0),
        timedelta(seconds=-5),
        timedelta.min,
        MAX_DELAY,
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime.min.replace(tzinfo=UTC),
        LAST_START,
    ],
    ids=str,
)
def test_using_a_run_after_that_can_be_stored_keeps_it(send: Job[Any, Any], moment: Any) -> None:
    """The past is allowed: it means now."""
    assert send.using(run_after=moment)._options.run_after == moment


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 1, 1),
        datetime(2026, 1, 1, tzinfo=Floating()),
        date(2026, 1, 1),
        time(12),
        0,
        5,
        1.5,
        True,
        "2026-01-01T00:00:00Z",
        MAX_DELAY + timedelta(microseconds=1),
        timedelta.max,
        LAST_START + timedelta(microseconds=1),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
    ],
    ids=str,
)
def test_using_a_run_after_that_is_none_is_refused(send: Job[Any, Any], moment: Any) -> None:
    """A naive datetime is ambiguous, a number has no unit, and year 10000 cannot be read back."""
    error = refused(send, run_after=moment)

    assert "run_after" in error.cause
    assert "timedelta" in error.fix


@pytest.mark.parametrize("alias", ["", "nowhere", 0, b"default", ["default"]])
def test_using_an_alias_that_is_none_is_refused_with_the_known_ones(
    send: Job[Any, Any], alias: Any
) -> None:
    """A misspelt alias is found before a connection is asked for it."""
    assert "default, other" in refused(send, alias=alias).cause


@pytest.mark.parametrize("conflict", ["existing", "error", "rerun", *OnConflict])
def test_using_an_on_conflict_by_its_word_or_member_is_the_same(
    send: Job[Any, Any], conflict: Any
) -> None:
    """The enum and its words are one."""
    assert send.using(on_conflict=conflict)._options.on_conflict is OnConflict(conflict)


@pytest.mark.parametrize("conflict", [None, "", "Error", "raise", 0, True, [], {}])
def test_using_an_on_conflict_that_is_none_is_refused(send: Job[Any, Any], conflict: Any) -> None:
    """Only the three words are answers to a held key, and the refusal lists them."""
    assert "existing, error, rerun" in refused(send, on_conflict=conflict).cause


def test_using_a_traceparent_keeps_it(send: Job[Any, Any]) -> None:
    """A W3C trace context is passed on as it is."""
    assert send.using(traceparent=TRACE)._options.traceparent == TRACE


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "x" * 55,
        "\x00" * 55,
        TRACE.upper(),
        TRACE[:-1],
        TRACE + "0",
        TRACE + "\n",
        b"x",
        0,
        True,
    ],
)
def test_using_a_traceparent_of_another_form_is_refused(
    send: Job[Any, Any], traceparent: Any
) -> None:
    """What is no trace context would break the tracer that reads it, or the insert."""
    assert "traceparent" in refused(send, traceparent=traceparent).cause


@pytest.mark.parametrize(
    "options",
    [
        {"tenant": "hunter2-zq\x00"},
        {"queue": "hunter2-zq" * 20},
        {"traceparent": "hunter2-zq"},
        {"run_after": "hunter2-zq"},
        {"alias": "hunter2-zq"},
        {"on_conflict": "hunter2-zq"},
        {"priority": "hunter2-zq"},
    ],
    ids=str,
)
def test_refusal_of_an_option_never_shows_its_value(
    send: Job[Any, Any], options: dict[str, Any]
) -> None:
    """Values that were mixed up may be secrets."""
    assert "hunter2-zq" not in str(refused(send, **options))


def test_using_text_marked_safe_is_text(send: Job[Any, Any]) -> None:
    """A subclass of str is text."""
    assert send.using(tenant=mark_safe("acme"))._options.tenant == "acme"
