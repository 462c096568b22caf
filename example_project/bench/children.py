"""Processes that the bench starts: each is ended by its id, also on Ctrl-C."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO

import psutil

from example_project.databases import PROJECT

GRACE_SECONDS = 30.0
LOOK_SECONDS = 0.05


class Child:
    """A Python process; what it says on standard error is kept, to be shown if it fails.

    Attributes:
        peak_bytes: the most memory it was seen to hold.
    """

    def __init__(
        self, words: Sequence[str], *, environment: Mapping[str, str], talks: bool
    ) -> None:
        self.peak_bytes = 0
        self._is_asked = False
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._process: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, *words],
            cwd=PROJECT,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
            stdout=subprocess.PIPE if talks else subprocess.DEVNULL,
            stderr=self._said,
            text=True,
            # Ctrl-C on a terminal goes to a whole group; the bench alone stops its children.
            process_group=0 if os.name == "posix" else None,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; ``None`` while it runs."""
        return self._process.poll()

    @property
    def to(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def of(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def wait(self, seconds: float) -> bool:
        """Wait for its end, watching its memory; say whether it came."""
        deadline = time.monotonic() + seconds
        while self.exit_code is None:
            if time.monotonic() > deadline:
                return False
            self.look()
            time.sleep(LOOK_SECONDS)
        return True

    def look(self) -> None:
        """Note how much memory it holds now."""
        try:
            held = psutil.Process(self.pid).memory_info().rss
        except psutil.Error:
            return
        self.peak_bytes = max(self.peak_bytes, held)

    def ask_to_stop(self) -> None:
        """Send the first signal, once: a second one would end a worker in the middle of its end."""
        if self.exit_code is None and not self._is_asked:
            self._is_asked = True
            self._process.terminate()

    def close(self) -> None:
        """End it, in order if it can; a second Ctrl-C ends it at once."""
        self.ask_to_stop()
        try:
            self._process.wait(GRACE_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._said):
            if stream is not None:
                stream.close()

    def last_words(self, lines: int = 5) -> str:
        """Return the last lines it wrote on standard error."""
        self._said.seek(0)
        written = self._said.read().decode(errors="replace").splitlines()
        return " / ".join([line for line in written if line.strip()][-lines:])


@contextmanager
def started(
    count: int,
    words: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    talks: bool = False,
) -> Iterator[list[Child]]:
    """Start so many of one kind, and end whichever still run afterwards."""
    with ExitStack() as ends:
        children = []
        for _ in range(count):
            child = Child(words, environment=environment or {}, talks=talks)
            ends.callback(child.close)
            children.append(child)
        try:
            yield children
        finally:
            # All are asked before any is waited for.
            for child in children:
                child.ask_to_stop()
