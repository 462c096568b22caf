"""What the demo says while it works: one rewritten line on a terminal, plain lines in a pipe."""

from __future__ import annotations

import shutil
import time
from typing import TextIO

PLAIN_INTERVAL_SECONDS = 2.0


class Console:
    """Writes to one stream, never to standard output, which belongs to the result."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._has_live_line = False
        self._plain_at = float("-inf")
        self._unwritten = ""

    def say(self, line: str = "") -> None:
        """Write a line that stays."""
        self.end_live()
        self._write(f"{line}\n")

    def live(self, line: str) -> None:
        """Replace the live line; in a pipe, write a plain line every two seconds."""
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self._write(f"\r\x1b[K{line[:width]}")
            self._has_live_line = True
        elif time.monotonic() - self._plain_at >= PLAIN_INTERVAL_SECONDS:
            self._plain_at = time.monotonic()
            self._unwritten = ""
            self._write(f"{line}\n")
        else:
            self._unwritten = line

    def end_live(self) -> None:
        """Leave the live line as it stands and go on below it; in a pipe, write the last one."""
        if self._has_live_line:
            self._has_live_line = False
            self._write("\n")
        elif self._unwritten:
            self._write(f"{self._unwritten}\n")
            self._unwritten = ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
