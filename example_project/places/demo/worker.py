"""A worker of the demo: ``manage.py runjobs`` in a process of its own, ended by its id."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from example_project.databases import PROJECT
from example_project.places.jobs import QUEUE

GRACE_SECONDS = 30


class WorkerProcess:
    """One ``manage.py runjobs``; what it writes is kept, to be shown if it dies."""

    def __init__(self) -> None:
        command = [sys.executable, "manage.py", "runjobs", "--queues", QUEUE]
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the worker
        self._process = subprocess.Popen(
            command,
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            **_own_group(),
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; ``None`` while it runs."""
        return self._process.poll()

    def close(self) -> None:
        """Ask it to finish what runs and give the rest back; a second Ctrl-C ends it at once."""
        if self.exit_code is None:
            self._process.terminate()
            try:
                self._process.wait(GRACE_SECONDS)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                self._process.kill()
                self._process.wait()
        self._output.close()

    def last_words(self, lines: int = 5) -> Sequence[str]:
        """Return the last lines it wrote."""
        self._output.seek(0)
        written = self._output.read().decode(errors="replace").splitlines()
        return [line for line in written if line.strip()][-lines:]


def _own_group() -> dict[str, int]:
    # Ctrl-C on a terminal goes to a whole group; the demo alone decides when the worker stops.
    return {"process_group": 0} if os.name == "posix" else {}
