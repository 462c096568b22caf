"""Real workers: ``manage.py runjobs`` with its defaults, each in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from example_project.bench.children import LOOK_SECONDS, Child, started
from example_project.bench.server import query
from ultimate_jobs.errors import WorkerGone

START_SECONDS = 60.0
# Slower than this and something is wrong, not slow.
LEAST_RATE = 50.0

LEASED = """
select count(*) from x_job_leases
where kind = 'worker' and (info ->> 'pid')::integer = any(%s) and expires_at > x_now()
"""


class BenchFailed(WorkerGone):
    """A phase did not come to its end, so it has no figure."""

    def __init__(self, *, what: str, last_words: str = "") -> None:
        said = f"; it said: {last_words}" if last_words else ""
        super(WorkerGone, self).__init__(cause=f"{what}{said}", fix="manage.py runjobs --burst")


class Workers:
    """Starts workers for the rows of a run.

    Args:
        queues: given only where others have live jobs; by default a worker serves every queue.
    """

    def __init__(self, queues: Sequence[str] = ()) -> None:
        flags = ["--queues", ",".join(queues)] if queues else []
        self._serve = ["manage.py", "runjobs", *flags]
        self._burst = [*self._serve, "--burst"]

    def drain(self, *, jobs: int) -> int:
        """Let one worker work until nothing is due; return the most memory it held."""
        with started(1, self._burst) as [child]:
            if not child.wait(START_SECONDS + jobs / LEAST_RATE):
                what = f"{jobs} jobs were not drained in time"
                raise BenchFailed(what=what, last_words=child.last_words())
            _refuse_failure(child)
            return child.peak_bytes

    def drain_for(self, seconds: float) -> None:
        """Let one worker work until nothing is due, or stop it in order after this long."""
        with started(1, self._burst) as [child]:
            if not child.wait(seconds):
                _stop(child)
            _refuse_failure(child)

    @contextmanager
    def serving(self, count: int = 1) -> Iterator[list[Child]]:
        """Have so many workers serve until the block ends, and then stop them in order."""
        with started(count, self._serve) as children:
            for child in children:
                _wait_for_lease(child)
            yield children
            for child in children:
                child.ask_to_stop()
            for child in children:
                _stop(child)
                _refuse_failure(child)


def wait_while(
    child: Child, is_waiting: Callable[[], bool], *, seconds: float, every: float = LOOK_SECONDS
) -> None:
    """Wait while a callable says so and the worker lives.

    Raises:
        BenchFailed: the worker ended, or it took too long.
    """
    deadline = time.monotonic() + seconds
    while is_waiting():
        if child.exit_code is not None:
            raise _ended(child)
        if time.monotonic() > deadline:
            what = f"a worker did not get there in {seconds:.0f} s"
            raise BenchFailed(what=what, last_words=child.last_words())
        child.look()
        time.sleep(every)


def _wait_for_lease(child: Child) -> None:
    wait_while(child, lambda: not query(LEASED, [[child.pid]])[0], seconds=START_SECONDS)


def _stop(child: Child) -> None:
    child.ask_to_stop()
    if not child.wait(START_SECONDS):
        raise BenchFailed(what="a worker did not stop", last_words=child.last_words())


def _refuse_failure(child: Child) -> None:
    if child.exit_code:
        raise _ended(child)


def _ended(child: Child) -> BenchFailed:
    what = f"a worker ended with exit code {child.exit_code}"
    return BenchFailed(what=what, last_words=child.last_words())
