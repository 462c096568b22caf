"""Text from a job is inert wherever it is shown."""

from __future__ import annotations

import pytest
from django.utils.safestring import SafeString, mark_safe
from hypothesis import given
from hypothesis import strategies as st

from ultimate_jobs.observe.plain import duration, many_lines, one_line


@given(st.text())
def test_one_line_of_any_text_is_one_printable_line(text: str) -> None:
    """No line end, no control character, no mark that reorders."""
    assert one_line(text).isprintable()


@given(st.text())
def test_many_lines_of_any_text_keep_only_line_ends(text: str) -> None:
    """The only character that moves the cursor is the line end."""
    assert all(line.isprintable() for line in many_lines(text).split("\n"))


def test_one_line_shows_what_it_escapes() -> None:
    """Nothing is dropped in silence."""
    assert one_line("a\x1b[31m\nb\u202e") == "a\\x1b[31m\\nb\\u202e"


@pytest.mark.parametrize("clean", [one_line, many_lines])
def test_safe_string_loses_its_claim(clean) -> None:
    """What says it is safe HTML is escaped by a template like any other text."""
    assert type(clean(mark_safe("<b>"))) is str
    assert not isinstance(clean(mark_safe("")), SafeString)


def test_one_line_over_its_limit_is_cut() -> None:
    """The cut is visible."""
    assert one_line("x" * 10, limit=5) == "xxxx…"


def test_many_lines_over_their_limit_tell_how_much_is_missing() -> None:
    """The reader knows that there is more."""
    assert many_lines("ab\ncd", limit=3) == "ab\n\n… (2 more characters)"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-1, "0s"), (0.4, "0s"), (59, "59s"), (60, "1m 0s"), (3_725, "1h 2m"), (90_000, "1d 1h")],
)
def test_duration_has_two_units(seconds: float, shown: str) -> None:
    """Precise enough to compare, short enough for a column."""
    assert duration(seconds) == shown
