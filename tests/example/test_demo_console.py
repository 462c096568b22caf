"""Progress is one rewritten line on a terminal, and plain lines in a pipe."""

from __future__ import annotations

import io

from example_project.places.demo.console import Console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_live_on_a_terminal_rewrites_one_line():
    """Each look replaces the line before; what is said after stands below it."""
    stream = Terminal()
    console = Console(stream)

    console.live("one")
    console.live("two")
    console.say("done")

    assert stream.getvalue() == "\r\x1b[Kone\r\x1b[Ktwo\ndone\n"


def test_live_on_a_narrow_terminal_is_cut(monkeypatch):
    """A line longer than the terminal would leave its rests behind."""
    monkeypatch.setenv("COLUMNS", "10")
    stream = Terminal()

    Console(stream).live("x" * 50)

    assert stream.getvalue() == "\r\x1b[K" + "x" * 9


def test_live_in_a_pipe_is_plain_and_rare():
    """A log gets a line now and then and the last one, and no control characters."""
    stream = io.StringIO()
    console = Console(stream)

    console.live("one")
    console.live("two")
    console.live("three")
    console.say("done")

    assert stream.getvalue() == "one\nthree\ndone\n"
