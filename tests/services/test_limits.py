"""Which limited jobs may start: a plan over what is free, in order and in turn."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from ultimate_jobs import JobContext, Limiter, job
from ultimate_jobs.ids import new_id
from ultimate_jobs.limits import Scope
from ultimate_jobs.services.limits import Limits, in_turn, need_of, plan_limited
from ultimate_jobs.slots import Candidate, SlotNeed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B, C = (Scope(name, 1) for name in "abc")


def need(*scopes: Scope) -> SlotNeed:
    return SlotNeed(new_id(), scopes)


def candidate(**fields: Any) -> Candidate:
    values = {
        "id": new_id(),
        "name": "tests.limited",
        "queue": "default",
        "tenant": None,
        "priority": 0,
        "due_at": NOW,
        "serial_key": None,
        "payload": "{}",
    }
    return Candidate(**{**values, **fields})


def declare(name: str = "tests.limited", **options: Any) -> None:
    @job(key="{n}", name=name, **options)
    def limited(ctx: JobContext, n: int) -> None: ...


def test_plan_takes_what_fits_in_order() -> None:
    """One slot, one job: the first."""
    first, second = need(A), need(A)

    assert plan_limited([first, second], {}, most=10) == [first]
    assert plan_limited([first, second], {"a": 1}, most=10) == []


def test_plan_passes_by_what_does_not_fit() -> None:
    """A job that waits for one limit hides nobody behind it, and takes nothing from them."""
    blocked, free = need(A, B), need(A)

    assert plan_limited([blocked, free], {"b": 1}, most=10) == [free]


def test_plan_ends_at_its_size() -> None:
    """No more than there are threads for."""
    assert len(plan_limited([need(Scope("x", 9)) for _ in range(5)], {}, most=3)) == 3


@given(
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True), max_size=12),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 4)),
    st.integers(1, 4),
)
def test_plan_never_exceeds_and_never_leaves_what_fits(
    asked: list[list[str]], used: dict[str, int], most: int
) -> None:
    """Of each name at most what is free; and whoever was passed by did not fit at the end."""
    needs = [need(*(Scope(name, most) for name in names)) for names in asked]

    chosen = plan_limited(needs, used, most=100)

    taken = Counter({name: used.get(name, 0) for name in "abc"})
    taken.update(scope.name for one in chosen for scope in one.scopes)
    assert all(taken[name] <= max(most, used.get(name, 0)) for name in "abc")
    for left in (one for one in needs if one not in chosen):
        assert any(taken[scope.name] >= most for scope in left.scopes)


def test_turn_is_by_priority_then_tenants_alternate() -> None:
    """A tenant with a long line does not keep another's first job waiting."""
    many = [candidate(tenant="a", due_at=NOW + timedelta(seconds=n)) for n in range(3)]
    late = candidate(tenant="b", due_at=NOW + timedelta(hours=1))
    high = candidate(tenant="a", priority=5, due_at=NOW + timedelta(hours=2))

    ordered = in_turn([*many, late, high], {})

    assert ordered == [high, many[0], late, many[1], many[2]]


def test_turn_goes_to_the_tenant_that_was_not_served() -> None:
    """With one slot at a time tenants take turns too."""
    early, late = candidate(tenant="a"), candidate(tenant="b", due_at=NOW + timedelta(hours=1))

    assert in_turn([early, late], {(0, "a"): 7}) == [late, early]


@pytest.mark.usefixtures("own_registry")
def test_full_names_are_those_of_which_nothing_can_start() -> None:
    """A job with one full limit of two is full; one whose limits depend on its inputs is not."""
    declare("both", concurrency=2, limits=[Limiter("shared", global_=1)])
    declare("other", limits=[Limiter("shared", global_=1)])
    declare("keyed", limits=[Limiter(per_key=1, key="{n}")])
    limits = Limits(("both", "other", "keyed"), None)

    assert limits.full_names({}) == frozenset()
    assert limits.full_names({"job:both": 2}) == {"both"}
    assert limits.full_names({"limiter:shared": 1}) == {"both", "other"}


@pytest.mark.usefixtures("own_registry")
def test_looks_leave_out_what_is_full() -> None:
    """Neither a full name nor a full queue is read."""
    declare("a", concurrency=1)
    declare("b", concurrency=1)
    declare("free")
    with override_settings(ULTIMATE_JOBS={"QUEUES": {"billing": {"concurrency": 1}}}):
        limits = Limits(("a", "b", "free"), None)
        open_, full = (
            limits.peeks({}, limit=9, with_strays=False),
            limits.peeks({"job:a": 1, "queue:billing": 1}, limit=9, with_strays=False),
        )

    assert [(set(one.names), one.queues) for one in open_] == [
        ({"a", "b"}, None),
        ({"a", "b", "free"}, ("billing",)),
    ]
    assert [(one.names, one.shut_queues) for one in full] == [(("b",), ("billing",))]


@pytest.mark.usefixtures("own_registry")
def test_nothing_is_looked_for_when_all_is_full() -> None:
    """A saturated worker asks one question and no more."""
    declare("a", concurrency=1)

    assert Limits(("a",), None).peeks({"job:a": 1}, limit=9, with_strays=True) == []


@pytest.mark.usefixtures("own_registry")
def test_limits_of_jobs_without_any_are_none() -> None:
    """Who limits nothing pays nothing: no look is ever made."""
    declare("free")

    assert not Limits(("free",), None)


@pytest.mark.usefixtures("own_registry")
def test_need_counts_a_job_under_an_alias_as_the_job() -> None:
    """A renamed job shares its limit with what was stored under the old name."""
    declare("new", concurrency=1, aliases=["old"])

    old, new = need_of(candidate(name="old")), need_of(candidate(name="new"))

    assert [one.name for one in old.scopes] == [one.name for one in new.scopes] == ["job:new"]


@pytest.mark.usefixtures("own_registry")
def test_need_of_inputs_that_cannot_be_read_is_still_limited() -> None:
    """What an older build wrote fails in its attempt, and not beside the limit."""
    declare("keyed", limits=[Limiter("l", per_key=1, key="{n}")])

    unreadable = need_of(candidate(name="keyed", payload='{"n": "x"}'))
    readable = need_of(candidate(name="keyed", payload='{"n": 5}'))

    assert [one.name for one in unreadable.scopes] == ["limiter:l:tenant::key:?"]
    assert [one.name for one in readable.scopes] == ["limiter:l:tenant::key:5"]


def test_needs_keep_the_job_they_are_of() -> None:
    """An id in, the same id out."""
    one = SlotNeed(UUID(int=1), (A, C))

    assert plan_limited([one], {}, most=1)[0].job == UUID(int=1)
