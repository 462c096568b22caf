"""Runs the worker until every job of the run has ended, and says how far it is."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

from example_project.places.demo.console import Console
from example_project.places.demo.recount import States, count_states
from example_project.places.demo.worker import WorkerProcess
from ultimate_jobs.errors import WorkerGone

LOOK_SECONDS = 0.5
# A dead worker's jobs come back when its lease ends, so a stop is none before that.
STALLED_SECONDS = 120.0
MAX_DEATHS = 3
_AFTER_A_DEATH = (
    "Another takes over. What the dead one was running comes back when its lease ends, within",
    "half a minute; where only the acknowledgement was missing, the effect then comes twice.",
)


class WorkersFailed(WorkerGone):
    """The demo's workers end before the jobs do."""

    def __init__(self, *, what: str, live: int, last_words: Sequence[str]) -> None:
        said = f"; it said: {' / '.join(last_words)}" if last_words else ""
        super(WorkerGone, self).__init__(
            cause=f"{what}, with {live} jobs of the demo still waiting{said}",
            fix="manage.py runjobs --burst --queues places",
        )


class Watch:
    """Keeps one worker going for the jobs of a run.

    Not a burst: that ends while a failed job waits for its next attempt.
    """

    def __init__(self, tenants: Sequence[str], console: Console) -> None:
        self._tenants = tenants
        self._console = console
        self._deaths = 0
        self._last = (-1, time.monotonic())

    def until_done(self) -> States:
        """Return how the jobs stand when none is live any more.

        Raises:
            WorkersFailed: workers die again and again, or no job ends for two minutes.
        """
        worker = WorkerProcess()
        started = time.monotonic()
        try:
            while True:
                # Before the count: a worker that ended after it has left nothing uncounted.
                code = worker.exit_code
                states = count_states(self._tenants)
                self._console.live(_progress(states, time.monotonic() - started))
                if states.live == 0:
                    return states
                self._refuse_standstill(states, worker)
                if code is not None:
                    worker = self._replaced(worker, code, states.live)
                time.sleep(LOOK_SECONDS)
        finally:
            worker.close()
            self._console.end_live()

    def _replaced(self, worker: WorkerProcess, code: int, live: int) -> WorkerProcess:
        self._deaths += 1
        ended = f"the worker (process {worker.pid}) {_ending(code)}"
        # Killed from outside, it had no time to say why.
        words = worker.last_words() if code >= 0 else []
        if self._deaths > MAX_DEATHS:
            raise WorkersFailed(what=ended, live=live, last_words=words)
        self._console.say(f"{ended[0].upper()}{ended[1:]}; nothing is lost by that.")
        for line in words:
            self._console.say(f"    it said: {line}")
        for line in _AFTER_A_DEATH:
            self._console.say(line)
        worker.close()
        return WorkerProcess()

    def _refuse_standstill(self, states: States, worker: WorkerProcess) -> None:
        done, since = self._last
        if states.done != done:
            self._last = (states.done, time.monotonic())
        elif time.monotonic() - since > STALLED_SECONDS:
            what = f"no job ended for {STALLED_SECONDS:.0f} seconds"
            raise WorkersFailed(what=what, live=states.live, last_words=worker.last_words())


def _progress(states: States, seconds: float) -> str:
    return (
        f"  {states.done:,} of {states.accepted:,} jobs ended"
        f" · {states.done / max(seconds, 0.001):,.0f} a second"
        f" · {states.retried:,} tried again · {states.dead:,} dead · {seconds:.0f} s"
    )


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
