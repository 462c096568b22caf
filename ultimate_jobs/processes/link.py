"""What a supervised worker and its supervisor say to each other over one socket."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from ultimate_jobs.processes.health import Health

# Seconds between two reports.
INTERVAL = 1.0
# Until a worker has begun: what ends before that is judged otherwise.
FIRST_INTERVAL = 0.1
# A word of the supervisor is one byte; without any more to come, the supervisor is gone.
STOP = b"s"
HURRY = b"h"


class SupervisorLink:
    """The worker's end: reports its health, and obeys.

    Not signals: those may come from elsewhere too (a service manager signals every process of its
    group), and two of them would end a worker at once. A socket also tells that the supervisor
    is gone, however that happened.

    Args:
        file: the number of the socket, as it was inherited.
        on_stop: called with a reason: stop in order.
        on_hurry: called with a reason: stop now.
    """

    def __init__(
        self,
        file: int,
        health: Callable[[], Health],
        *,
        on_stop: Callable[[str], None],
        on_hurry: Callable[[str], None],
        interval: float = INTERVAL,
    ) -> None:
        # What a body starts must not inherit it.
        os.set_inheritable(file, False)
        self._socket = socket.socket(fileno=file)
        self._socket.settimeout(FIRST_INTERVAL)
        self._interval = interval
        self._health = health
        self._on_stop = on_stop
        self._on_hurry = on_hurry
        self._lock = threading.Lock()
        self._unsent = b""
        self._thread = threading.Thread(target=self._run, name="jobs-link", daemon=True)

    def start(self) -> None:
        """Report and obey from now on."""
        self._thread.start()

    def report(self) -> None:
        """Send one report; what the supervisor is too slow to read is left out."""
        with self._lock, suppress(OSError):
            if not self._unsent:
                self._unsent = self._report()
            sent = self._socket.send(self._unsent, socket.MSG_DONTWAIT)
            self._unsent = self._unsent[sent:]

    def report_last(self) -> None:
        """Send the sum of it all, and wait a moment for the supervisor to take it."""
        with self._lock, suppress(OSError):
            self._socket.sendall(self._unsent + self._report())
            self._unsent = b""

    def _report(self) -> bytes:
        health = self._health()
        if health.begun:
            self._socket.settimeout(self._interval)
        return health.as_json().encode() + b"\n"

    def _run(self) -> None:
        while True:
            self.report()
            try:
                words = self._socket.recv(64)
            except TimeoutError:
                continue
            except OSError:
                words = b""
            if not words:
                self._on_stop("the supervisor is gone")
                return
            self._obey(words)

    def _obey(self, words: bytes) -> None:
        if HURRY in words:
            self._on_hurry("the supervisor hurries")
        elif STOP in words:
            self._on_stop("the supervisor stops")
