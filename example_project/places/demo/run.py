"""One run of the demo, from an empty database to its figures."""

from __future__ import annotations

import secrets
import time

from example_project.places.demo.console import Console
from example_project.places.demo.database import migrate, one_demo_at_a_time, reachable_database
from example_project.places.demo.enqueue import Answers, enqueue_plan
from example_project.places.demo.load import load_subdivisions
from example_project.places.demo.options import Options
from example_project.places.demo.plan import make_plan
from example_project.places.demo.recount import (
    States,
    count_doubled,
    count_lost,
    find_retried_job,
)
from example_project.places.demo.result import Result
from example_project.places.demo.tenants import LANGUAGES, forget_earlier_runs, make_tenants
from example_project.places.demo.trace import trace_lines
from example_project.places.demo.watch import Watch


class Run:
    """A run; its id names its tenants, by which its rows are told from everybody else's.

    Attributes:
        trace: the history of a job that failed before it succeeded.
    """

    def __init__(self, options: Options, console: Console) -> None:
        self.id = secrets.token_hex(3)
        self.tenants: list[str] = []
        self.trace: list[str] = []
        self._options = options
        self._console = console
        self._started = time.monotonic()

    def work(self) -> Result:
        """Do it all and return the figures.

        Raises:
            DatabaseUnavailable, WorkersFailed: the demo cannot go on.
        """
        with reachable_database(), one_demo_at_a_time(self._console):
            self._prepare()
            answers = self._enqueue()
            states = Watch(self.tenants, self._console).until_done()
            # While the lock is held: the next demo removes this one's tenants.
            if job_id := find_retried_job(self.tenants):
                self.trace = list(trace_lines(job_id))
            return self._result(answers, states)

    def _prepare(self) -> None:
        self._console.say("Preparing the database ...")
        migrate()
        if forgotten := forget_earlier_runs():
            whose = "an earlier run" if forgotten == 1 else f"{forgotten} earlier runs"
            self._console.say(f"Removed the tenants of {whose} of the demo.")
        self.tenants = make_tenants(self.id, self._options.tenants)

    def _enqueue(self) -> Answers:
        codes = load_subdivisions(LANGUAGES, limit=self._options.limit)
        self._console.say(f"Loaded {len(codes):,} places of ISO 3166-2.")
        answers = enqueue_plan(make_plan(self.tenants, codes, self._options), tell=self._tell)
        self._console.end_live()
        return answers

    def _tell(self, answers: Answers) -> None:
        self._console.live(
            f"  {answers.asked:,} enqueues: {answers.enqueued:,} accepted,"
            f" {answers.deduped:,} deduped"
        )

    def _result(self, answers: Answers, states: States) -> Result:
        return Result(
            enqueued=states.accepted,
            deduped=answers.deduped,
            completed=states.completed,
            dead=states.dead,
            retried=states.retried,
            lost=count_lost(self.tenants),
            doubled=count_doubled(self.tenants),
            jobs_per_second=states.jobs_per_second,
            seconds=round(time.monotonic() - self._started, 1),
            tenants=len(self.tenants),
            seed=self._options.seed,
            run=self.id,
        )
