"""A worker process as its supervisor sees it."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from ultimate_jobs.processes.health import Health

# Bytes: more than one report ever is.
LONGEST_REPORT = 1_048_576


class Child(Protocol):
    """What a supervisor needs of a worker process."""

    @property
    def pid(self) -> int: ...

    def listen(self) -> Health | None:
        """Return the latest report that has come since the last call."""
        ...

    def tell(self, word: bytes) -> None:
        """Say a word of ``processes.link``."""
        ...

    def end_code(self) -> int | None:
        """Return its exit code, negative for a signal, or ``None`` while it runs."""
        ...

    def terminate(self) -> None:
        """Send SIGTERM, for a process that does not listen to words yet."""
        ...

    def kill(self) -> None:
        """Send SIGKILL."""
        ...

    def close(self) -> None:
        """Release what is held for it; it has ended."""
        ...


class ChildProcess:
    """A fresh interpreter: nothing is forked that has connections or threads.

    It is a process group of its own, so that Ctrl-C reaches it through its supervisor only.

    Args:
        command: makes the command line, given the number of the socket that it inherits.
    """

    def __init__(self, command: Callable[[int], Sequence[str]]) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        self._read = b""
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                command(theirs.fileno()),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def listen(self) -> Health | None:
        with suppress(OSError):
            while received := self._socket.recv(65536):
                self._read += received
        *reports, self._read = self._read.split(b"\n")
        if len(self._read) > LONGEST_REPORT:
            self._read = b""
        for report in reversed(reports):
            with suppress(ValueError, TypeError, KeyError, AttributeError):
                return Health.from_json(report)
        return None

    def tell(self, word: bytes) -> None:
        with suppress(OSError):
            self._socket.send(word)

    def end_code(self) -> int | None:
        return self._process.poll()

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._socket.close()
