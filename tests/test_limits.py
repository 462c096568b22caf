"""Limiters: what a declaration may say, and which slots a run of the job then needs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ultimate_jobs import JobContext, Limiter, job
from ultimate_jobs.drivers import use_driver
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.errors import JobKeyInvalid, JobOptionInvalid, LimiterConflict, LimiterInvalid
from ultimate_jobs.limits import NO_KEY, JobLimits, Scope, encoded, serial_key
from ultimate_jobs.records import JobFilter

pytestmark = pytest.mark.usefixtures("own_registry")

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def declare(**options: Any) -> JobLimits:
    @job(**{"key": "{n}", "name": "tests.limited", **options})
    def limited(ctx: JobContext, n: int, word: str = "") -> None: ...

    return limited.definition.limits


def scopes(limits: JobLimits, *, tenant: str | None = None, **inputs: Any) -> list[Scope]:
    found = limits.scopes("tests.limited", tenant=tenant, lane=None, inputs={"n": 1, **inputs})
    return list(found)


def names(limits: JobLimits, **given: Any) -> list[str]:
    return [scope.name for scope in scopes(limits, **given)]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"key": "{n}"},
        {"per_key": 1},
        {"rate": 1},
        {"period": 1},
        {"global_": 0},
        {"global_": 10_001},
        {"global_": True},
        {"global_": 1.0},
        {"global_": "1"},
        {"per_tenant": -1},
        {"per_key": 0, "key": "{n}"},
        {"rate": 0, "period": 1},
        {"rate": 10_001, "period": 1},
        {"rate": 1, "period": 0},
        {"rate": 1, "period": "60"},
        {"rate": 1, "period": True},
        {"rate": 1, "period": float("nan")},
        {"rate": 1, "period": timedelta(days=366)},
    ],
    ids=str,
)
def test_limiter_that_cannot_hold_is_refused(arguments: dict[str, Any]) -> None:
    """What limits nothing, or by no number, is told where it is written."""
    with pytest.raises(LimiterInvalid) as caught:
        Limiter("smtp", **arguments)

    fixed = eval(caught.value.fix.removeprefix("write it as "))
    assert fixed.name == "smtp"


@pytest.mark.parametrize("name", [5, "", "a\x00", "x" * 256])
def test_limiter_with_a_name_that_is_none_is_told_so(name: Any) -> None:
    """The limiter is what is refused, and no job of that name."""
    with pytest.raises(LimiterInvalid, match="a limiter cannot be called so: the name "):
        Limiter(name, global_=1)


def test_limiter_is_frozen() -> None:
    """A limit cannot be changed behind the jobs that share it."""
    with pytest.raises(AttributeError):
        Limiter(global_=1).global_ = 2  # type: ignore[misc]


@pytest.mark.parametrize(("period", "milliseconds"), [(60, 60_000), (0.5, 500)])
def test_period_takes_seconds_or_a_timedelta(period: float, milliseconds: int) -> None:
    """Both spellings are one period."""
    for spelling in (period, timedelta(seconds=period)):
        assert Limiter(rate=1, period=spelling).period_ms == milliseconds


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("concurrency", 0),
        ("concurrency", True),
        ("concurrency", "10"),
        ("concurrency", 10_001),
        ("limits", "smtp"),
        ("limits", Limiter(global_=1)),
        ("limits", [1]),
        ("limits", [Limiter("a", global_=1), Limiter("a", global_=1)]),
        ("limits", [Limiter(per_key=1, key="{other}")]),
        ("limits", [Limiter(per_key=1, key=lambda other: "")]),
        ("serial", ""),
        ("serial", 7),
        ("serial", "{other}"),
    ],
)
def test_option_that_cannot_work_is_refused_by_its_name(option: str, value: Any) -> None:
    """The refusal says which option of which job is wrong."""
    with pytest.raises(JobOptionInvalid) as caught:
        declare(**{option: value})

    assert caught.value.cause.startswith(f'option {option} of job "tests.limited"')


def test_job_without_limits_needs_no_slot() -> None:
    """What declares nothing pays nothing."""
    limits = declare()

    assert not limits
    assert scopes(limits) == []


def test_concurrency_is_one_limit_for_all_tenants() -> None:
    """It belongs to the job, whoever it runs for."""
    limits = declare(concurrency=10)

    assert names(limits, tenant="a") == names(limits, tenant="b") == ["job:tests.limited"]
    assert scopes(limits)[0].most == 10


def test_global_limit_is_shared_and_the_others_are_within_a_tenant() -> None:
    """Two tenants meet at what is global, and nowhere else."""
    limits = declare(limits=[Limiter("l", global_=9, per_tenant=3, per_key=1, key="{word}")])

    mine, its = set(names(limits, tenant="a")), set(names(limits, tenant="b"))

    assert mine & its == {"limiter:l"}
    assert len(mine) == len(its) == 3


def test_limiter_without_a_name_meets_no_other() -> None:
    """Neither one that is named like its job, nor a second one of the same job."""
    mine = [Limiter(global_=1), Limiter(global_=2)]
    limits = declare(limits=[*mine, Limiter("tests.limited", global_=3)])

    assert len(set(names(limits))) == 3


@pytest.mark.parametrize(
    ("scope", "meets"),
    [
        ({}, ["other tenant", "other key"]),
        ({"per_tenant": 5}, ["other key"]),
        ({"key": "{word}"}, []),
        ({"per_tenant": 5, "per_key": 2, "key": "{word}"}, []),
        ({"global_": 5}, ["other tenant", "other key"]),
    ],
)
def test_rate_counts_in_the_narrowest_scope_that_is_named(
    scope: dict[str, Any], meets: list[str]
) -> None:
    """Per key where there is a key, else per tenant where that is named, else over all."""
    limits = declare(limits=[Limiter(rate=10, period=60, **scope)])

    def rate(tenant: str, word: str) -> Scope:
        [found] = [one for one in scopes(limits, tenant=tenant, word=word) if one.period_ms]
        return found

    mine = rate("a", "x")
    assert (mine.most, mine.period_ms) == (10, 60_000)
    assert (rate("b", "x") == mine) is ("other tenant" in meets)
    assert (rate("a", "y") == mine) is ("other key" in meets)


def test_key_that_cannot_be_computed_is_one_key_and_not_none() -> None:
    """A job that will fail for its inputs does not run without its limit meanwhile."""
    limits = declare(limits=[Limiter("l", per_key=1, key=lambda n, word: word[9])])

    assert names(limits, word="") == [f"limiter:l:tenant::key:{NO_KEY}"]
    unreadable = limits.scopes("tests.limited", tenant=None, lane=None, inputs=None)
    assert [one.name for one in unreadable] == names(limits, word="")


def test_lane_is_the_stored_key_and_else_that_of_the_inputs() -> None:
    """What came before the declaration had a lane runs in the one it would have now."""
    limits = declare(serial="account:{n}")

    stored = limits.scopes("tests.limited", tenant="a", lane="a:account:7", inputs=None)

    assert [one.name for one in stored] == ["serial:a:account:7"]
    assert names(limits, tenant="a") == ["serial:a:account:1"]


@given(st.lists(st.tuples(TEXT, TEXT), min_size=2, max_size=6, unique=True))
def test_no_two_tenants_and_keys_share_a_slot(pairs: list[tuple[str, str]]) -> None:
    """Whatever they are called: a tenant "a:key:b" is not tenant "a" with key "b"."""
    limits = JobLimits(limiters=(Limiter("l", per_key=1, key="{word}").bound_to("j", ("word",)),))

    found = {
        limits.scopes("j", tenant=tenant, lane=None, inputs={"word": word})[0].name
        for tenant, word in pairs
    }

    assert len(found) == len(pairs)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=2, max_size=6, unique=True))
def test_no_two_tenants_share_a_lane(pairs: list[tuple[str, str]]) -> None:
    """The tenant is a part of the stored key, and cannot run into the rest."""
    assert len({serial_key(tenant, key) for tenant, key in pairs}) == len(pairs)


def test_long_parts_are_cut_and_stay_apart() -> None:
    """An index entry has an end; two long keys that begin alike are two all the same."""
    first, second = encoded("é" * 500 + "a"), encoded("é" * 500 + "b")

    assert first != second
    assert max(len(first), len(second)) <= 250


def test_jobs_that_name_one_limiter_and_disagree_are_refused() -> None:
    """A limiter with two meanings would be none."""
    declare(limits=[Limiter("smtp", global_=10)])

    with pytest.raises(LimiterConflict) as caught:
        declare(name="tests.other", limits=[Limiter("smtp", global_=5)])

    assert '"smtp"' in caught.value.cause


def test_jobs_that_name_one_limiter_may_have_keys_of_their_own() -> None:
    """Their inputs have names of their own too."""
    declare(limits=[Limiter("smtp", per_key=1, key="{n}")])
    declare(name="tests.other", limits=[Limiter("smtp", per_key=1, key="{word}")])


def test_job_that_is_declared_anew_may_change_its_limiter() -> None:
    """An autoreload after an edit is no conflict with itself."""
    name = {"name": "tests.reloaded"}
    for limit in (1, 2):
        spec = object()
        body = _module_function(spec)
        job(key="{n}", limits=[Limiter("smtp", global_=limit)], **name)(body)


def _module_function(spec: object) -> Any:
    scope: dict[str, Any] = {"__spec__": spec, "__name__": "reloaded"}
    exec("def body(ctx, n: int) -> None: ...", scope)
    return scope["body"]


def test_stored_serial_key_is_that_of_tenant_and_inputs() -> None:
    """The lane is computed where the job is enqueued."""
    limits = declare(serial=lambda n, word: f"{word}!")

    assert limits.serial_for is not None
    assert serial_key("acme", limits.serial_for({"n": 1, "word": "w"})) == "acme:w!"


@pytest.mark.parametrize("lane", ["", "a\x00", "x" * 1025])
def test_lane_that_cannot_be_stored_is_refused_at_the_enqueue(lane: str) -> None:
    """Nothing is written, and no worker meets it later."""
    driver = MemoryDriver()
    use_driver(driver)

    @job(key="{n}", serial=lambda n: lane)
    def limited(ctx: JobContext, n: int) -> None: ...

    try:
        with pytest.raises(JobKeyInvalid) as caught:
            limited.enqueue(n=1)
    finally:
        use_driver(None)
    found = driver.introspection.find(JobFilter(), limit=10)
    driver.close()

    assert "the serial " in caught.value.cause
    assert found == []


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (lambda n: 1 / (n - 1), "cannot be computed from these inputs (ZeroDivisionError)"),
        (lambda n: n, "is int, not str"),
        ("{n:>s}", "cannot be computed from these inputs"),
    ],
)
@pytest.mark.parametrize("counts", [{"per_key": 1}, {"rate": 1, "period": 1}])
def test_limiter_key_that_cannot_be_computed_is_refused_at_the_enqueue(
    key: Any, said: str, counts: dict[str, Any]
) -> None:
    """Such jobs would all share one key, and nobody would see why they wait."""
    driver = MemoryDriver()
    use_driver(driver)

    @job(key="{n}", limits=[Limiter("smtp", key=key, **counts)])
    def limited(ctx: JobContext, n: int) -> None: ...

    try:
        with pytest.raises(JobKeyInvalid) as caught:
            limited.enqueue_many([{"n": 1}])
    finally:
        use_driver(None)
    found = driver.introspection.find(JobFilter(), limit=10)
    driver.close()

    assert f'the key of limiter "smtp" {said}' in caught.value.cause
    assert found == []


def test_stored_inputs_of_which_no_key_can_be_computed_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They share a key, other jobs are claimed on, and the log says why without their values."""
    bound = Limiter("told", per_key=1, key=lambda number: 1 / 0).bound_to("j", ("number",))

    found = {bound.scopes("acme", {"number": number})[-1].name for number in (41, 42)}

    assert len(found) == 1
    assert caplog.messages == [
        'the key of limiter "told" raised ZeroDivisionError for a stored job, '
        "which counts without it"
    ]
