"""Payloads: a body gets what was passed, and all else is refused with its path and remedy."""

from __future__ import annotations

import ast
import collections
import dataclasses
import enum
import json
import re
import traceback
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pydantic
import pytest
from django.utils.functional import lazystr
from django.utils.safestring import SafeString, mark_safe
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from tests.app.models import Document
from ultimate_jobs.errors import (
    JobInputInvalid,
    JobPayloadInvalid,
    JobPayloadTooLarge,
    JobSignatureInvalid,
    ResultInvalid,
    UltimateJobsError,
)
from ultimate_jobs.payload import InputSchema, dump_result
from ultimate_jobs.storable import MAX_DEPTH, find_refusal

MEGABYTE = 1_048_576
SECRET = "hunter2-zq"
NUL = "\x00"
MANY = settings(max_examples=100, deadline=None)
SOME = settings(max_examples=30, deadline=None)
HALF = "\ud800"


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


class Size(enum.StrEnum):
    SMALL = "small"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Line:
    amount: Decimal
    note: str = ""
    weight: float = 0.0
    extra: Any = None


@dataclasses.dataclass(frozen=True)
class Order:
    id: UUID
    lines: list[Line]
    due: date | None = None


@dataclasses.dataclass(eq=False)
class Plain:
    n: int


class Point(NamedTuple):
    x: int
    y: int


class Address(TypedDict):
    street: str
    number: int


class Account(pydantic.BaseModel):
    number: int
    labels: set[str] = set()


class SavingsAccount(Account):
    rate: float


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


def schema(annotation: Any, **options: Any) -> InputSchema:
    """Return the schema of a job with one input called ``value``."""

    def body(ctx: Any, value: Any) -> None: ...

    body.__annotations__ = {"value": annotation}
    if "default" in options:
        body.__defaults__ = (options["default"],)
    return InputSchema(job="tests.body", func=body)


def stored(annotation: Any, value: Any, *, max_bytes: int = MEGABYTE) -> str:
    """Return the text that an enqueue of this value would store."""
    asked = schema(annotation)
    return asked.dump(asked.load({"value": value}), max_bytes=max_bytes)


def returned(annotation: Any, value: Any) -> Any:
    """Return what a body would get."""
    return schema(annotation).decode(stored(annotation, value))["value"]


def refusal(annotation: Any, value: Any) -> UltimateJobsError:
    with pytest.raises((JobInputInvalid, JobPayloadInvalid)) as caught:
        stored(annotation, value)
    return caught.value


def everything_said(error: BaseException) -> str:
    """Return all that a log, a crash page or an error tracker would show of an error."""
    shown = "".join(traceback.format_exception(error))
    # The source lines of a traceback are the test's own text.
    lines = [line for line in shown.splitlines() if not line.startswith("    ")]
    return "\n".join([*lines, str(error), repr(error), repr(getattr(error, "__dict__", {}))])


# --- what comes back -------------------------------------------------------------------------

clean_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=NUL))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | clean_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(clean_text, inner, max_size=4),
    max_leaves=12,
)


def same(before: Any, after: Any) -> bool:
    """Compare by value and by type, all the way down."""
    if type(before) is not type(after):
        return False
    if isinstance(before, dict):
        return list(before) == list(after) and all(same(before[k], after[k]) for k in before)
    if isinstance(before, list | tuple):
        return len(before) == len(after) and all(map(same, before, after))
    return bool(before == after)


@MANY
@given(json_values)
@example("NaN")
@example("-Infinity")
@example([" NaN", ":Infinity,", "[NaN]"])
@example("\\u0000")
@example('\\"\\u0000"NaN')
@example({"NaN": 1, "\\u0000": 2})
@example(1e308)
@example(3.817069980338431e16)
@example([1e16, -1e22, "1e22", {"1e+22": 1.5e300}, '"1e5', 1e-300])
@example(5e-324)
@example(-0.0)
@example("\u2028 \ufffe \U0010ffff e\u0301 é \r\n\t\x7f\x1f")
def test_dump_of_any_json_value_gives_it_back(value: Any) -> None:
    """JSON values come back equal and of the same types; words like NaN are only text."""
    assert same(returned(Any, value), value)


@MANY
@given(json_values)
def test_dump_of_any_json_value_is_strict_json(value: Any) -> None:
    """PostgreSQL takes neither NaN nor a NUL, so the text never holds one."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    text = stored(Any, value)

    assert find_refusal(json.loads(text, parse_constant=refuse)) is None


aware = st.datetimes(
    min_value=datetime(1980, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.timezones()
)
TYPED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (bool, st.booleans()),
    (int, st.integers()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (str, clean_text),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (UUID, st.uuids()),
    (date, st.dates()),
    (time, st.times()),
    (timedelta, st.timedeltas(timedelta(days=-(10**6)), timedelta(days=10**6))),
    (datetime, st.datetimes()),
    (Colour, st.sampled_from(Colour)),
    (Size, st.sampled_from(Size)),
    (Level, st.sampled_from(Level)),
    (int | None, st.none() | st.integers()),
    (int | str, st.integers() | clean_text),
    (Literal["a", 1], st.sampled_from(["a", 1])),
    (set[int], st.sets(st.integers())),
    (frozenset[str], st.frozensets(clean_text)),
    (tuple[int, str], st.tuples(st.integers(), clean_text)),
    (tuple[date, ...], st.lists(st.dates()).map(tuple)),
    (list[Decimal], st.lists(st.decimals(allow_nan=False, allow_infinity=False))),
    (collections.deque[int], st.lists(st.integers()).map(collections.deque)),
    (dict[int, str], st.dictionaries(st.integers(), clean_text)),
    (dict[UUID, list[date]], st.dictionaries(st.uuids(), st.lists(st.dates(), max_size=3))),
    (dict[Size, bool], st.dictionaries(st.sampled_from(Size), st.booleans())),
    (Point, st.builds(Point, st.integers(), st.integers())),
    (Address, st.fixed_dictionaries({"street": clean_text, "number": st.integers()})),
    (Line, st.builds(Line, amount=st.decimals(0, 10**6, places=2), note=clean_text)),
    (
        Order,
        st.builds(
            Order,
            id=st.uuids(),
            lines=st.lists(st.builds(Line, amount=st.decimals(0, 9, places=2)), max_size=3),
            due=st.none() | st.dates(),
        ),
    ),
    (Account, st.builds(Account, number=st.integers(), labels=st.sets(clean_text))),
    (PurePosixPath, st.sampled_from([PurePosixPath("/a/b"), PurePosixPath(".")])),
]


@SOME
@given(st.data())
@pytest.mark.parametrize(("annotation", "values"), TYPED, ids=lambda v: str(v)[:40])
def test_dump_of_a_typed_value_gives_it_back(
    annotation: Any, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    """Every type an input may have survives the queue, its type included."""
    value = data.draw(values)

    back = returned(annotation, value)

    assert type(back) is type(value)
    assert back == value


@MANY
@given(aware)
@example(datetime(2026, 10, 25, 2, 30, fold=0, tzinfo=ZoneInfo("Europe/Berlin")))
@example(datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")))
@example(datetime(2026, 3, 29, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")))
def test_dump_of_an_aware_datetime_keeps_its_wall_time_and_offset(value: datetime) -> None:
    """Also in the hour that a clock change repeats or skips."""
    back = returned(datetime, value)

    assert back.replace(tzinfo=None, fold=0) == value.replace(tzinfo=None, fold=0)
    assert back.utcoffset() == value.utcoffset()


def test_dump_of_an_offset_with_seconds_is_refused() -> None:
    """An offset that JSON would round is refused, for the instant would move."""
    local_mean_time = datetime(1890, 1, 1, tzinfo=timezone(timedelta(minutes=53, seconds=28)))

    error = refusal(datetime, local_mean_time)

    assert "value" in error.cause


def test_dump_of_a_dataclass_without_equality_is_taken() -> None:
    """A class need not compare by value to be an input."""
    assert returned(Plain, Plain(3)).n == 3


@pytest.mark.parametrize(("given_", "back"), [((1, (2, 3)), [1, [2, 3]]), ([(1,)], [[1]])])
def test_dump_of_an_untyped_tuple_gives_a_list_back(given_: Any, back: Any) -> None:
    """JSON has one kind of sequence, and this is the one change that is let through."""
    assert same(returned(Any, given_), back)


def test_dump_of_a_tuple_for_a_sequence_is_taken() -> None:
    """A list is as good a sequence as the annotation asks for."""
    assert returned(Sequence[int], (1, 2)) == [1, 2]


@pytest.mark.parametrize("annotation", [str, Any])
def test_dump_of_a_safe_string_gives_plain_text_back(annotation: Any) -> None:
    """What was safe HTML in a web process claims nothing in a worker."""
    back = returned(annotation, mark_safe("<b>x</b>"))

    assert type(back) is str
    assert not isinstance(back, SafeString)
    assert back == "<b>x</b>"


# --- what is refused at enqueue ---------------------------------------------------------------

NESTINGS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda bad: bad, "value"),
    (lambda bad: [0, bad], "value[1]"),
    (lambda bad: {"rows": [{"cell": bad}]}, "value.rows[0].cell"),
    (lambda bad: (1, [bad]), "value[1][0]"),
    (lambda bad: Line(Decimal(1), extra={"k": bad}), "value.extra.k"),
    (lambda bad: [Line(Decimal(1), extra=bad)], "value[0].extra"),
]
BAD: list[tuple[str, Callable[[], Any], str]] = [
    ("NUL", lambda: f"a{NUL}b", "NUL"),
    ("surrogate", lambda: f"a{HALF}b", "surrogate"),
    ("NaN", lambda: float("nan"), "NaN or infinite"),
    ("infinity", lambda: float("inf"), "NaN or infinite"),
    ("minus infinity", lambda: float("-inf"), "NaN or infinite"),
    ("model", lambda: Document(pk=1, name=SECRET), "Document instance"),
    ("queryset", Document.objects.all, "queryset"),
    ("bytes", lambda: b"abc", "binary"),
    ("bytearray", lambda: bytearray(b"abc"), "binary"),
    ("set", lambda: {1, 2}, "set"),
    ("date", lambda: date(2026, 1, 1), "date"),
    ("decimal", lambda: Decimal("1.5"), "Decimal"),
    ("uuid", uuid4, "UUID"),
    ("enum", lambda: Colour.RED, "Colour"),
    ("timedelta", lambda: timedelta(1), "timedelta"),
    ("deque", lambda: collections.deque([1]), "deque"),
    ("int key", lambda: {1: 2}, "int as a key"),
    ("None key", lambda: {None: 2}, "NoneType as a key"),
    ("colliding keys", lambda: {1: 2, "1": 3}, "int as a key"),
    ("function", lambda: print, "builtin_function_or_method"),
    ("generator", lambda: (n for n in [1]), "generator"),
    ("dict items", lambda: {}.items(), "dict_items"),
    ("class", lambda: Document, "ModelBase"),
    ("object", object, "object"),
    ("lazy text", lambda: lazystr("x"), "proxy"),
    ("huge int", lambda: 10**5000, "too many digits"),
    ("complex", lambda: 1j, "complex"),
]


@pytest.mark.parametrize(("wrap", "path"), NESTINGS, ids=[path for _, path in NESTINGS])
@pytest.mark.parametrize(("kind", "make", "said"), BAD, ids=[kind for kind, _, _ in BAD])
def test_dump_of_an_untyped_value_that_json_changes_is_refused_with_its_path(
    kind: str, make: Callable[[], Any], said: str, wrap: Callable[[Any], Any], path: str
) -> None:
    """Nothing is stored that a worker would read back as something else."""
    annotation = Line if "extra" in path and "[0].extra" not in path else Any
    if path == "value[0].extra":
        annotation = list[Line]

    error = refusal(annotation, wrap(make()))

    assert isinstance(error, JobPayloadInvalid)
    assert f"the value at {path} " in error.cause
    assert said in error.cause
    assert error.fix


@pytest.mark.parametrize("key", [f"a{NUL}", f"a{HALF}"])
def test_dump_of_a_key_that_postgres_refuses_names_where_it_stands(key: str) -> None:
    """A key of a mapping is text like any other."""
    error = refusal(Any, {"outer": {key: 1}})

    assert "a key of value.outer" in error.cause


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (str, NUL, "value"),
        (list[str], ["", NUL], "value[1]"),
        (set[str], {NUL}, "value[0]"),
        (dict[str, str], {"k": NUL}, "value.k"),
        (tuple[int, str], (1, NUL), "value[1]"),
        (Point, Point(1, float("nan")), "value.y"),  # type: ignore[arg-type]
        (Line, Line(Decimal(1), note=NUL), "value.note"),
        (Line, Line(Decimal(1), weight=float("nan")), "value.weight"),
        (list[float], [1.0, float("inf")], "value[1]"),
        (dict[str, float], {"k": float("nan")}, "value.k"),
        (Account, Account(number=1, labels={NUL}), "value.labels[0]"),
    ],
    ids=str,
)
def test_dump_of_a_typed_value_that_postgres_refuses_names_its_path(
    annotation: Any, value: Any, path: str
) -> None:
    """NUL, NaN and infinity are refused inside dataclasses and models too."""
    error = refusal(annotation, value)

    assert f"{path} " in error.cause or f"{path}:" in error.cause


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(bytes, b"\xff"), (bytes, b"\x00"), (pydantic.SecretStr, pydantic.SecretStr(SECRET))],
    ids=str,
)
def test_dump_of_what_json_cannot_give_back_is_refused(annotation: Any, value: Any) -> None:
    """A typed value whose text loses something is refused as well."""
    assert isinstance(refusal(annotation, value), JobPayloadInvalid)


def test_dump_of_a_subclass_whose_fields_would_be_dropped_is_refused() -> None:
    """The annotation decides what is stored; what it does not know must not vanish."""
    error = refusal(Account, SavingsAccount(number=1, rate=0.5))

    assert "SavingsAccount" in error.cause
    assert "come back as a Account" in error.cause


def test_dump_of_a_one_way_iterator_is_refused() -> None:
    """Reading it for the payload uses it up."""
    assert isinstance(refusal(Iterable[int], [1, 2]), JobPayloadInvalid)


def test_dump_of_a_dataclass_with_a_wrong_field_is_refused() -> None:
    """A dataclass does not check itself, so a worker would be the first to notice."""
    error = refusal(Line, Line(amount="much"))  # type: ignore[arg-type]

    assert isinstance(error, JobInputInvalid)
    assert "value.amount" in error.cause


def cyclic_list() -> Any:
    value: list[Any] = []
    value.append([value])
    return value


def cyclic_dict() -> Any:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


def cyclic_dataclass() -> Any:
    value = Line(Decimal(1))
    value.extra = [value]
    return value


@pytest.mark.parametrize("make", [cyclic_list, cyclic_dict, cyclic_dataclass])
def test_dump_of_a_cyclic_value_is_refused(make: Callable[[], Any]) -> None:
    """A value that contains itself has no text, and the refusal does not recurse for ever."""
    error = refusal(Line if make is cyclic_dataclass else Any, make())

    assert "contains itself" in error.cause


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_dump_of_the_deepest_allowed_value_gives_it_back() -> None:
    """The bound itself works in both directions."""
    assert returned(Any, nested(MAX_DEPTH)) == nested(MAX_DEPTH)


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, MAX_DEPTH + 60, 2_000, 100_000])
def test_dump_of_a_too_deep_value_is_refused(levels: int) -> None:
    """What no worker could parse again is refused, in a message of readable length."""
    error = refusal(Any, nested(levels))

    assert f"nested over {MAX_DEPTH} deep" in error.cause
    assert len(error.cause) < 400


def test_dump_of_a_key_with_line_ends_is_shown_on_one_line() -> None:
    """A message is one line, whatever the keys on its path hold."""
    error = refusal(Any, {"a\nb\r\x1b[31m": NUL})

    assert error.cause.isprintable()
    assert "value.a" in error.cause


@pytest.mark.parametrize("other", [(1, 2), [1]], ids=str)
def test_dump_beside_a_tuple_judges_each_input_by_itself(other: Any) -> None:
    """That one input changes as it may is no reason to refuse another."""

    def body(ctx: Any, data: bytes, numbers: Sequence[int]) -> None: ...

    asked = InputSchema(job="tests.body", func=body)

    text = asked.dump(asked.load({"data": b"abc", "numbers": other}), max_bytes=100)

    assert asked.decode(text) == {"data": b"abc", "numbers": list(other)}


def test_dump_of_a_wide_value_is_not_deep() -> None:
    """Many siblings are no depth, and the same object twice is no cycle."""
    shared = [1]

    assert returned(Any, [shared] * 500) == [[1]] * 500


@pytest.mark.parametrize(("text", "size"), [("a" * 10, 22), ("é" * 10, 32), ("💶" * 10, 52)])
def test_dump_counts_bytes_and_not_characters(text: str, size: int) -> None:
    """The limit is on what is stored: UTF-8 of the whole JSON text."""
    assert len(stored(str, text, max_bytes=size).encode()) == size

    with pytest.raises(JobPayloadTooLarge) as caught:
        stored(str, text, max_bytes=size - 1)

    assert f"is {size} bytes" in caught.value.cause
    assert f"limit is {size - 1}" in caught.value.cause


mixed = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=[]), max_size=5)
    | st.binary(max_size=3)
    | st.dates()
    | st.decimals()
    | st.uuids()
    | st.sampled_from([*Colour, *Size, *Level, print, Document]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers() | st.none(), inner, max_size=3)
        | st.frozensets(st.integers() | st.text(max_size=2), max_size=3)
        | st.builds(Line, amount=st.decimals(), note=st.text(max_size=3), extra=inner)
    ),
    max_leaves=8,
)


def untupled(value: Any) -> Any:
    """Return a value with its tuples as the lists they come back as."""
    if isinstance(value, dict):
        return {key: untupled(item) for key, item in value.items()}
    return [untupled(item) for item in value] if isinstance(value, list | tuple) else value


@MANY
@given(mixed)
def test_dump_of_anything_is_refused_in_words_or_gives_it_back(value: Any) -> None:
    """There is no third way: no foreign error, and no value that changes on its way."""
    text, refused = None, None
    try:
        text = stored(Any, value)
    except UltimateJobsError as error:
        refused = error.cause

    if text is None:
        assert refused is not None
        assert "value" in refused
        assert "\n" not in refused
    else:
        assert schema(Any).decode(text)["value"] == untupled(value)
        assert find_refusal(json.loads(text)) is None


# --- what load refuses -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, True),
        (int, 1.0),
        (int, "1"),
        (int, Decimal(1)),
        (bool, 1),
        (bool, "true"),
        (str, 1),
        (str, b"x"),
        (str, None),
        (float, "1.5"),
        (float, True),
        (Decimal, 1.5),
        (Decimal, "1.5"),
        (Decimal, Decimal("NaN")),
        (Decimal, Decimal("Infinity")),
        (UUID, "8e8d0a9c-8b0b-4b0e-8a0b-6f0c5b0a9c8b"),
        (date, "2026-01-01"),
        (date, datetime(2026, 1, 1)),
        (datetime, "2026-01-01T00:00:00Z"),
        (datetime, 0),
        (timedelta, 5),
        (Colour, "red"),
        (Literal["a"], "b"),
        (list[int], (1, 2)),
        (set[int], [1, 2]),
        (tuple[int, str], [1, "a"]),
        (dict[str, int], [("a", 1)]),
        (Line, {"amount": "1"}),
        (int | None, "1"),
        (Annotated[int, pydantic.Field(gt=0)], 0),
    ],
    ids=str,
)
def test_load_of_another_type_is_refused_and_not_converted(annotation: Any, value: Any) -> None:
    """What an input is, is what its annotation says; nothing is guessed."""
    with pytest.raises(JobInputInvalid) as caught:
        schema(annotation).load({"value": value})

    assert "value" in caught.value.cause
    ast.parse(caught.value.fix.removeprefix("call "), mode="eval")
    assert caught.value.fix.startswith("call body.enqueue(value=")


@pytest.mark.parametrize("value", [mark_safe("x"), Size.SMALL])
def test_load_of_a_subclass_of_text_is_taken(value: str) -> None:
    """A template's safe string and a StrEnum member are text."""
    assert schema(str).load({"value": value})["value"] == value


def test_load_of_an_int_for_a_float_is_a_float() -> None:
    """Every whole number is a number; the body gets the type it asked for."""
    loaded = schema(float).load({"value": 3})["value"]

    assert type(loaded) is float


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (int, Document(pk=1), "value: is a Document instance; pass its primary key"),
        (list[int], [1, Document(pk=1)], "value[1]: is a Document instance"),
        (int, Document.objects.all(), "value: is a queryset; pass a list of primary keys"),
        (dict[str, int], {"k": b"x"}, "value.k: is binary; pass base64 text"),
    ],
    ids=["model", "nested model", "queryset", "bytes"],
)
def test_load_of_what_lives_elsewhere_says_the_remedy(
    annotation: Any, value: Any, path: str
) -> None:
    """A model instance where a number belongs is the commonest slip, and its cure is said."""
    with pytest.raises(JobInputInvalid) as caught:
        schema(annotation).load({"value": value})

    assert path in caught.value.cause


def three(ctx: Any, first: int, second: str, third: list[int]) -> None: ...


def test_load_of_many_wrong_inputs_names_them_all() -> None:
    """One call is corrected once, not once per input."""
    asked = InputSchema(job="tests.three", func=three)

    with pytest.raises(JobInputInvalid) as caught:
        asked.load({"first": "1", "third": [1, "x", 3, None], "fourth": 4, "fifth": 5})

    cause = caught.value.cause
    for said in ("first:", "second: Field required", "third[1]:", "third[3]:", "fourth:", "fifth:"):
        assert said in cause


@pytest.mark.parametrize("inputs", [None, [], "value", 5, [("value", 1)]])
def test_load_of_what_is_no_mapping_is_refused(inputs: Any) -> None:
    """``enqueue_many`` takes mappings, and a list of values is said to be none."""
    with pytest.raises(JobInputInvalid) as caught:
        schema(int).load(inputs)

    assert type(inputs).__name__ in caught.value.cause


def test_load_of_a_name_that_is_no_text_is_refused() -> None:
    """An input is named by text."""
    with pytest.raises(JobInputInvalid):
        schema(int).load({"value": 1, 2: 3})  # type: ignore[dict-item]


def test_load_leaves_the_callers_own_mapping_alone() -> None:
    """Defaults are added to a copy."""
    inputs: dict[str, Any] = {}

    schema(int, default=3).load(inputs)

    assert inputs == {}


# --- defaults and payloads of other releases --------------------------------------------------


def test_dump_records_the_defaults() -> None:
    """A job runs with the defaults of the day it was enqueued."""
    asked = schema(int, default=3)

    assert json.loads(asked.dump(asked.load({}), max_bytes=100)) == {"value": 3}


@pytest.mark.parametrize("zero", [0, False, "", [], None])
def test_load_of_an_explicit_zero_keeps_it(zero: Any) -> None:
    """An empty value is a value, and never replaced by the default."""
    assert schema(Any, default="default").load({"value": zero}) == {"value": zero}


def test_decode_without_a_defaulted_input_leaves_it_to_the_function() -> None:
    """A payload of an older release lacks the new input; the function's default fills it."""
    assert schema(int, default=3).decode("{}") == {}


def test_decode_without_a_required_input_names_it() -> None:
    """A payload that this release cannot run is refused before the body starts."""
    with pytest.raises(JobInputInvalid) as caught:
        schema(int).decode("{}")

    assert "value: Field required" in caught.value.cause


def test_decode_with_an_input_that_is_gone_names_it() -> None:
    """Dropping an input silently would run the job without what it was asked for."""
    with pytest.raises(JobInputInvalid) as caught:
        schema(int).decode('{"value": 1, "formerly": 2}')

    assert "formerly:" in caught.value.cause


@pytest.mark.parametrize("payload", ["", "{", "[]", "null", "1", '"x"', "{'value': 1}", "\x80\x04"])
def test_decode_of_what_is_no_json_object_is_refused(payload: str) -> None:
    """Only JSON objects are payloads, whoever wrote the row; no other format is even tried."""
    with pytest.raises(JobInputInvalid):
        schema(int).decode(payload)


def test_decode_of_a_type_that_changed_is_refused() -> None:
    """An annotation that was narrowed meets the rows of the earlier release."""
    with pytest.raises(JobInputInvalid) as caught:
        schema(int).decode('{"value": "7"}')

    assert "value:" in caught.value.cause


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (int, None),
        (int, "3"),
        (str, 3),
        (list[int], ["x"]),
        (Annotated[int, pydantic.Field(gt=0)], 0),
    ],
    ids=str,
)
def test_default_of_another_type_is_refused_at_declaration(annotation: Any, default: Any) -> None:
    """Such a job would be accepted by enqueue and refused by every worker."""
    with pytest.raises(JobSignatureInvalid) as caught:
        schema(annotation, default=default)

    assert '"value"' in caught.value.cause


@pytest.mark.parametrize(
    ("annotation", "default"),
    [(int | None, None), (float, 3), (Any, None), (Colour, Colour.RED), (Line, Line(Decimal(1)))],
    ids=str,
)
def test_default_of_its_annotated_type_is_taken(annotation: Any, default: Any) -> None:
    """A default is an input like any other, of any type an input may have."""
    asked = schema(annotation, default=default)

    text = asked.dump(asked.load({}), max_bytes=MEGABYTE)

    assert asked.decode(text)["value"] == default


# --- secrets ---------------------------------------------------------------------------------


def angry(value: str) -> str:
    raise ValueError(f"I do not like {value}")


def afraid(value: str) -> str:
    raise pydantic_error(f"not {value}")


def pydantic_error(text: str) -> Exception:
    return AssertionError(text)


def loose_lips(value: str) -> str:
    raise RuntimeError(f"cannot serialize {value}")


Validated = Annotated[str, pydantic.AfterValidator(angry)]
Asserted = Annotated[str, pydantic.AfterValidator(afraid)]
Serialized = Annotated[str, pydantic.PlainSerializer(loose_lips)]
Tagged = Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, SECRET),
        (int | None, SECRET),
        (bool, SECRET),
        (float, SECRET),
        (UUID, SECRET),
        (date, SECRET),
        (Decimal, SECRET),
        (Colour, SECRET),
        (Literal["a", "b"], SECRET),
        (list[int], [SECRET]),
        (dict[str, int], {"k": SECRET}),
        (tuple[int, int], (1, SECRET)),
        (Line, SECRET),
        (Line, Line(amount=SECRET)),  # type: ignore[arg-type]
        (Validated, SECRET),
        (Asserted, SECRET),
        (Serialized, SECRET),
        (Annotated[str, pydantic.Field(max_length=3)], SECRET),
        (Annotated[str, pydantic.Field(pattern="^x$")], SECRET),
        (str, SECRET + NUL),
        (str, SECRET + HALF),
        (Any, {"password": SECRET, "when": date(2026, 1, 1)}),
        (Any, [SECRET, b"x"]),
        (Any, {"password": SECRET, "n": float("nan")}),
        (Any, Document(name=SECRET)),
        (Any, Decimal("31337.1337")),
        (pydantic.SecretStr, pydantic.SecretStr(SECRET)),
    ],
    ids=lambda v: re.sub(r"\W+", " ", repr(v))[:40],
)
def test_refusal_never_shows_the_value(annotation: Any, value: Any) -> None:
    """Errors reach logs, mails and error trackers; an input may be a password."""
    said = everything_said(refusal(annotation, value))

    assert SECRET not in said
    assert "31337" not in said


@pytest.mark.parametrize(
    ("annotation", "payload"),
    [
        (int, json.dumps({"value": SECRET})),
        (UUID, json.dumps({"value": SECRET})),
        (date, json.dumps({"value": SECRET})),
        (Validated, json.dumps({"value": SECRET})),
        (Tagged, json.dumps({"value": {"kind": SECRET}})),
        (int, f'{{"value": {SECRET}}}'),
    ],
    ids=str,
)
def test_decode_never_shows_the_value(annotation: Any, payload: str) -> None:
    """The same holds for a row that a worker cannot read."""
    with pytest.raises(JobInputInvalid) as caught:
        schema(annotation).decode(payload)

    said = everything_said(caught.value)
    assert SECRET not in said
    # A parser tells which character it met, which is a part of the value too.
    assert "found `" not in said


def test_refusal_of_a_too_large_value_never_shows_it() -> None:
    """Sizes are told, contents are not."""
    with pytest.raises(JobPayloadTooLarge) as caught:
        stored(str, SECRET * 50, max_bytes=100)

    assert SECRET not in everything_said(caught.value)


# --- results ---------------------------------------------------------------------------------


@MANY
@given(json_values)
def test_result_of_any_json_value_is_its_text(value: Any) -> None:
    """A body's answer is what the caller gets."""
    text = dump_result("tests.body", value, max_bytes=MEGABYTE)

    assert text is None if value is None else same(json.loads(text or ""), value)


@pytest.mark.parametrize(
    "result",
    [
        f"a{NUL}",
        {"a": [f"x{NUL}"]},
        {f"a{NUL}": 1},
        HALF,
        float("nan"),
        [1, float("inf")],
        collections.deque([float("nan")]),
        Line(Decimal(1), note=NUL),
        Line(Decimal(1), weight=float("nan")),
        Account(number=1, labels={NUL}),
        b"x",
        10**5000,
        Document(pk=1),
        [Document(pk=1)],
        Document.objects.all(),
        {}.items(),
        (n for n in [1]),
        map(str, [1]),
        print,
        object(),
        lazystr("x"),
        nested(MAX_DEPTH + 2),
        cyclic_list(),
        cyclic_dict(),
        cyclic_dataclass(),
        Decimal,
    ],
    ids=lambda v: type(v).__name__,
)
def test_result_that_cannot_be_stored_is_refused_in_words(result: Any) -> None:
    """A result fails its own job, at once, and not the statement that completes a whole batch."""
    with pytest.raises(ResultInvalid) as caught:
        dump_result("tests.body", result, max_bytes=MEGABYTE)

    assert "result" in caught.value.cause


def test_result_names_the_path_of_what_it_refuses() -> None:
    """A large report with one bad cell is not searched by hand."""
    with pytest.raises(ResultInvalid) as caught:
        dump_result("tests.body", {"rows": [{"n": float("nan")}]}, max_bytes=MEGABYTE)

    assert "result.rows[0].n" in caught.value.cause


def test_result_over_the_limit_is_refused_by_bytes() -> None:
    """The limit counts what is stored."""
    assert dump_result("tests.body", "é" * 10, max_bytes=22) == '"' + "é" * 10 + '"'

    with pytest.raises(ResultInvalid) as caught:
        dump_result("tests.body", "é" * 10, max_bytes=21)

    assert "22 bytes" in caught.value.cause


@pytest.mark.parametrize("falsy", [0, False, "", [], {}])
def test_result_that_is_falsy_is_still_a_result(falsy: Any) -> None:
    """Only ``None`` means that there is none."""
    assert dump_result("tests.body", falsy, max_bytes=100) == json.dumps(falsy)


@MANY
@given(mixed)
def test_result_of_anything_is_refused_in_words_or_strict_json(result: Any) -> None:
    """Whatever a body returns, no foreign error reaches the worker and no bad text the database."""
    text, refused = None, ""
    try:
        text = dump_result("tests.body", result, max_bytes=MEGABYTE)
    except ResultInvalid as error:
        refused = error.cause

    assert "\n" not in refused
    assert text is None or find_refusal(json.loads(text)) is None


def test_utc_datetimes_of_both_kinds_are_one_instant() -> None:
    """``timezone.utc`` and the parser's own zone are the same moment."""
    assert returned(datetime, datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1, tzinfo=UTC)
