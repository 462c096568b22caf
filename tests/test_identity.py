"""Keys, names, queues and tenants: what fits is kept byte for byte, what does not is refused."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ultimate_jobs.errors import IdempotencyRequired, JobKeyInvalid, JobOptionInvalid
from ultimate_jobs.identity import MAX_BYTES, check_text, key_function

KINDS = sorted(MAX_BYTES)
SECRET = "hunter2-zq"


def key_of(key: Any, **inputs: Any) -> str:
    return key_function("tests.body", key, tuple(inputs))(inputs)


@pytest.mark.parametrize("what", KINDS)
def test_check_text_at_the_limit_returns_it(what: str) -> None:
    """The documented maximum itself is allowed."""
    text = "x" * MAX_BYTES[what]

    assert check_text("tests.body", what, text) == text


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize("character", ["x", "é", "💶"])
def test_check_text_over_the_limit_counts_bytes(what: str, character: str) -> None:
    """An index entry is measured in bytes, and so is the limit."""
    over = character * (MAX_BYTES[what] // len(character.encode()) + 1)

    with pytest.raises(JobKeyInvalid) as caught:
        check_text("tests.body", what, over)

    assert f"the {what} is {len(over.encode())} bytes" in caught.value.cause
    assert str(MAX_BYTES[what]) in caught.value.cause


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize("value", [None, 0, 1, True, b"x", ["x"], object()])
def test_check_text_of_another_type_is_refused(what: str, value: object) -> None:
    """What is no text is not made one."""
    with pytest.raises(JobKeyInvalid) as caught:
        check_text("tests.body", what, value)

    assert f"is {type(value).__name__}, not str" in caught.value.cause


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize(
    ("value", "said"),
    [("", "empty"), ("a\x00", "NUL"), ("a\ud800", "surrogate"), ("\udfff", "half")],
)
def test_check_text_that_cannot_be_stored_is_refused(what: str, value: str, said: str) -> None:
    """PostgreSQL would refuse it later, inside the caller's transaction."""
    with pytest.raises(JobKeyInvalid) as caught:
        check_text("tests.body", what, value)

    assert said in caught.value.cause
    assert "tests.body" in caught.value.cause


@pytest.mark.parametrize("queue", [" mail", "mail ", "mail\n", "\u00a0mail", " "])
def test_check_text_of_a_queue_that_a_command_line_would_trim_is_refused(queue: str) -> None:
    """``--queues`` cuts it off, so no worker could be told to serve it."""
    with pytest.raises(JobKeyInvalid, match="the queue begins or ends with white space"):
        check_text("tests.body", "queue", queue)

    assert check_text("tests.body", "queue", "two words") == "two words"


def test_check_text_of_what_belongs_to_no_job_names_none() -> None:
    """A command that is given a wrong queue speaks of the queue alone."""
    with pytest.raises(JobKeyInvalid) as caught:
        check_text(None, "queue", "a,b")

    assert caught.value.cause == "the queue contains a comma"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a", "A"),
        ("a", "a "),
        ("\u00e9", "e\u0301"),
        ("a:b", "a::b"),
        ("x" * 299 + "1", "x" * 299 + "2"),
    ],
)
def test_check_text_keeps_different_keys_different(one: str, other: str) -> None:
    """Case, spaces and normal forms are the caller's: nothing is normalised."""
    kept = [check_text("tests.body", "key", text) for text in (one, other)]

    assert kept == [one, other]
    assert len(set(kept)) == 2


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=[]), max_size=40))
def test_check_text_of_any_text_returns_it_or_refuses(text: str) -> None:
    """There is no third way."""
    storable = text and "\x00" not in text and not any("\ud800" <= c <= "\udfff" for c in text)

    if storable:
        assert check_text("tests.body", "key", text) == text
    else:
        with pytest.raises(JobKeyInvalid):
            check_text("tests.body", "key", text)


def test_check_text_never_shows_the_text() -> None:
    """A key may be made of a secret."""
    with pytest.raises(JobKeyInvalid) as caught:
        check_text("tests.body", "key", SECRET * 200)

    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("key", [None, ""])
def test_key_function_without_a_key_is_refused(key: Any) -> None:
    """A key has no default."""
    with pytest.raises(IdempotencyRequired) as caught:
        key_function("tests.body", key, ("invoice_id",))

    assert "body:{invoice_id}" in caught.value.fix


@pytest.mark.parametrize("key", [0, False, True, 7, b"x", [], {}, ("a",), 1.5])
def test_key_function_of_another_type_is_refused(key: Any) -> None:
    """What is neither text nor callable is said to be so; a falsy one is not "no key"."""
    with pytest.raises(JobOptionInvalid) as caught:
        key_function("tests.body", key, ())

    assert type(key).__name__ in caught.value.cause


@pytest.mark.parametrize(
    ("key", "inputs", "computed"),
    [
        ("invoice:{n}", {"n": 7}, "invoice:7"),
        ("{a}:{b}", {"a": 1, "b": "x"}, "1:x"),
        ("{a}{a}", {"a": 1}, "11"),
        ("once", {}, "once"),
        ("0", {}, "0"),
        ("{{literal}}", {}, "{literal}"),
        ("{n:05d}", {"n": 7}, "00007"),
        ("{n:{width}d}", {"n": 7, "width": 3}, "  7"),
        ("{n!r}", {"n": "x"}, "'x'"),
        ("{day:%Y-%m}", {"day": date(2026, 3, 1)}, "2026-03"),
        ("{day.year}", {"day": date(2026, 3, 1)}, "2026"),
        ("{row[id]}", {"row": {"id": 9}}, "9"),
        ("{text}", {"text": "{n}"}, "{n}"),
        ("50%{n}%s", {"n": 1}, "50%1%s"),
    ],
)
def test_key_function_of_a_template_formats_the_inputs(
    key: str, inputs: dict[str, Any], computed: str
) -> None:
    """A template is Python's own format string over the inputs; an input's braces are text."""
    assert key_of(key, **inputs) == computed


@pytest.mark.parametrize("key", ["{", "}", "{n", "n}", "{n!}", "{n!x}", "{n!rr}", "{a b", "{n:{"])
def test_key_function_of_a_broken_template_is_refused(key: str) -> None:
    """It is refused where it is written, not when the first job is enqueued."""
    with pytest.raises(JobOptionInvalid) as caught:
        key_function("tests.body", key, ("n",))

    assert "format string" in caught.value.cause


@pytest.mark.parametrize(
    "key", ["{m}", "{}", "{0}", "{ n}", "{m.n}", "{m[n]}", "{n:{width}d}", "{n}{m}"]
)
def test_key_function_of_a_template_that_names_no_input_is_refused(key: str) -> None:
    """A misspelt field would fail on every enqueue; the inputs there are, are listed."""
    with pytest.raises(JobOptionInvalid) as caught:
        key_function("tests.body", key, ("n",))

    assert "none of its inputs (n)" in caught.value.cause
    assert '"job:{n}"' in caught.value.fix


def test_key_function_of_a_template_without_inputs_says_so() -> None:
    """The fix fits a job that takes nothing."""
    with pytest.raises(JobOptionInvalid) as caught:
        key_function("tests.body", "{n}", ())

    assert "it has none" in caught.value.cause
    assert 'key="body"' in caught.value.fix


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("{n:d}", SECRET),
        ("{n.missing}", SECRET),
        ("{n[missing]}", {}),
        ("{n[9]}", [1]),
        ("{n:%Z9}", 1.5),
    ],
)
def test_key_function_of_a_template_that_fits_no_input_refuses_in_words(
    key: str, value: Any
) -> None:
    """The refusal is ours and never quotes the input."""
    with pytest.raises(JobKeyInvalid) as caught:
        key_of(key, n=value)

    said = "".join(traceback.format_exception(caught.value)) + str(caught.value)
    assert SECRET not in said
    assert "cannot be formatted" in caught.value.cause


def test_key_function_of_a_callable_takes_the_inputs_by_name() -> None:
    """A callable is asked with exactly the inputs."""
    assert key_of(lambda *, n, m: f"{n}/{m}", n=1, m=2) == "1/2"


def one_word() -> str:
    return "x"


def other_names(a: int, b: int) -> str:
    return f"{a}{b}"


def only_by_place(n: int, /) -> str:
    return str(n)


async def later(n: int) -> str:
    return str(n)


@pytest.mark.parametrize("key", [one_word, other_names, only_by_place, later, lambda m: "x"])
def test_key_function_of_a_callable_that_cannot_be_called_so_is_refused(
    key: Callable[..., Any],
) -> None:
    """A key that would fail on every enqueue is refused at import."""
    with pytest.raises(JobOptionInvalid) as caught:
        key_function("tests.body", key, ("n",))

    assert "tests.body" in caught.value.cause


class KeyMaker:
    def __call__(self, **inputs: Any) -> str:
        return "-".join(map(str, inputs.values()))


@pytest.mark.parametrize(
    "key",
    [KeyMaker(), KeyMaker().__call__, partial(lambda sep, n, m: f"{n}-{m}", "."), "{n}-{m}".format],
)
def test_key_function_of_any_callable_is_taken(key: Callable[..., Any]) -> None:
    """Objects, bound methods, partials and builtins are callables too."""
    assert key_of(key, n=1, m=2) == "1-2"


def test_key_function_passes_on_what_a_callable_raises() -> None:
    """The app's own error is not dressed up as ours."""

    def key(n: int) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        key_of(key, n=1)


def test_check_text_of_a_queue_with_a_comma_is_refused() -> None:
    """No worker could be told to serve it; in a key or a name a comma is a character."""
    with pytest.raises(JobKeyInvalid) as caught:
        check_text("tests.body", "queue", "bills,mail")

    assert "the queue contains a comma" in caught.value.cause
    assert check_text("tests.body", "key", "a,b") == "a,b"
