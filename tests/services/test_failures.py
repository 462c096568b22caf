"""Every exception becomes text that can be stored, whatever it does to prevent that."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ultimate_jobs.errors import JobNotFound
from ultimate_jobs.services.failures import (
    MAX_MESSAGE,
    MAX_TRACEBACK,
    describe_failure,
    shorten,
)


class RefusesStr(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class ExitsInStr(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class NumberForStr(Exception):
    def __str__(self) -> Any:
        return 5  # noqa: PLE0307


class Enormous(Exception):
    def __str__(self) -> str:
        return "é" * 25_000_000

    __repr__ = __str__


class NeedsKeyword(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")


class SlyText(str):
    __slots__ = ()

    def __len__(self) -> int:
        raise RuntimeError("a text that refuses to be measured")


def raised(error: BaseException) -> BaseException:
    """Return the error with a traceback."""
    try:
        raise error
    except BaseException as caught:
        return caught


def test_describe_failure_names_class_message_and_place() -> None:
    """An ordinary error is told as Python tells it."""
    failure = describe_failure(raised(ValueError("boom")))

    assert failure.error_class == "ValueError"
    assert failure.message == "boom"
    assert "in raised\n    raise error\n" in failure.traceback
    assert failure.traceback.endswith("ValueError: boom\n")


def test_describe_failure_of_app_class_gives_its_path() -> None:
    """A class outside builtins is named with its module."""
    failure = describe_failure(raised(NeedsKeyword(code=7)))

    assert failure.error_class == "tests.services.test_failures.NeedsKeyword"
    assert failure.message == "code 7"


def test_describe_failure_of_own_error_gives_code_and_cause() -> None:
    """An error of this package is told by its code."""
    failure = describe_failure(JobNotFound(job_id="x"))

    assert failure.error_class == "X_JOB_NOT_FOUND"
    assert failure.message == "no job has the id x among the tenants that were asked"


@pytest.mark.parametrize("kind", [RefusesStr, ExitsInStr, NumberForStr])
def test_describe_failure_where_str_raises_says_so(kind: type[Exception]) -> None:
    """An error without a text is still a failure with a traceback."""
    failure = describe_failure(raised(kind()))

    assert failure.error_class.endswith(kind.__name__)
    assert "its message cannot be shown" in failure.message
    assert "raise error" in failure.traceback


def test_describe_failure_of_huge_message_is_cut() -> None:
    """50 MB of text leave a few kilobytes, with beginning and end of the traceback."""
    failure = describe_failure(raised(Enormous()))

    assert len(failure.message.encode()) <= MAX_MESSAGE
    assert "25000000 characters in all" in failure.message
    assert len(failure.traceback.encode()) <= MAX_TRACEBACK
    assert failure.traceback.startswith("Traceback (most recent call last)")
    assert failure.traceback.endswith("é\n")


def test_describe_failure_shows_nul_and_half_surrogates_as_escapes() -> None:
    """What PostgreSQL cannot store is made visible, also in a quoted source line."""
    failure = describe_failure(raised(ValueError("bad \x00 byte \ud800 end")))

    assert failure.message == "bad \\x00 byte \\ud800 end"
    assert "\x00" not in failure.traceback
    failure.traceback.encode()


def test_describe_failure_of_group_shows_each_error() -> None:
    """An ExceptionGroup keeps its members."""
    group = ExceptionGroup("two", [ValueError("first"), TypeError("second")])

    failure = describe_failure(raised(group))

    assert failure.error_class == "ExceptionGroup"
    assert "ValueError: first" in failure.traceback
    assert "TypeError: second" in failure.traceback


@pytest.mark.parametrize(
    "error", [SystemExit(2), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()]
)
def test_describe_failure_of_base_exception_is_a_failure(error: BaseException) -> None:
    """What is no Exception is described alike."""
    failure = describe_failure(raised(error))

    assert failure.error_class.endswith(type(error).__name__)


def test_describe_failure_of_text_subclass_trusts_none_of_its_methods() -> None:
    """A message whose class overrides len() is copied first."""

    class Sly(Exception):
        def __str__(self) -> str:
            return SlyText("plain")

    assert describe_failure(raised(Sly())).message == "plain"


def test_describe_failure_keeps_local_values_out() -> None:
    """A traceback holds source lines, never what variables held."""

    def fails() -> None:
        password = "".join(["hun", "ter2"])
        raise ValueError(len(password))

    with pytest.raises(ValueError) as caught:
        fails()

    assert "hunter2" not in describe_failure(caught.value).traceback


def test_describe_failure_adds_note() -> None:
    """What else went wrong follows the message."""
    assert describe_failure(ValueError("boom"), note="and more").message == "boom\nand more"


@pytest.mark.parametrize("tail", [0, 40])
@pytest.mark.parametrize("text", ["x" * 99, "é" * 99, "€" * 500, "\x00" * 60, "😀" * 1000])
def test_shorten_never_exceeds_its_limit(text: str, tail: int) -> None:
    """The limit holds in bytes, and no character is cut in two."""
    shortened = shorten(text, 100, tail=tail)

    assert len(shortened.encode()) <= 100
    assert "\ufffd" not in shortened
