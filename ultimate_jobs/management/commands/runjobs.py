"""manage.py runjobs: start a worker process; it only parses and prints."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from django.core.management.base import CommandParser
from django.db import DEFAULT_DB_ALIAS
from django.db.utils import OperationalError

from ultimate_jobs import conf
from ultimate_jobs.errors import ArgumentInvalid, DatabaseUnavailable
from ultimate_jobs.events import subscribe
from ultimate_jobs.identity import check_text
from ultimate_jobs.management.output import AnsweringCommand, chosen_driver
from ultimate_jobs.observe.logs import log_event
from ultimate_jobs.processes.outcomes import Tally
from ultimate_jobs.processes.worker import Worker

DAY = 86_400


class Command(AnsweringCommand):
    """One worker process."""

    help = "Claims and runs jobs until SIGTERM or SIGINT; a second signal ends it at once."
    requires_system_checks = "__all__"
    requires_migrations_checks = True

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add(
            "--queues",
            action="append",
            metavar="A,B",
            help="serve only these queues; may be given more than once; by default every queue",
        )
        add("--threads", type=int, metavar="N", help="bodies at a time; by default THREADS")
        add(
            "--burst",
            action="store_true",
            help="stop when nothing is due for this worker, and nothing runs in it",
        )
        add("--once", action="store_true", help="claim once, at most a job per thread, and stop")
        add(
            "--grace",
            type=float,
            metavar="SECONDS",
            help="how long running bodies may go on after a signal; by default GRACE",
        )
        add("--database", metavar="ALIAS", help="the database that holds the jobs")
        add("--json", action="store_true", help="print the summary as JSON")

    def check_migrations(self) -> None:
        # What is not applied yet is told beside the logs: stdout is for the answer.
        stdout, self.stdout = self.stdout, self.stderr
        try:
            super().check_migrations()
        except OperationalError as error:
            raise _unavailable(DEFAULT_DB_ALIAS, error) from None
        finally:
            self.stdout = stdout

    def handle(self, *args: Any, **options: Any) -> None:
        show_events()
        driver = chosen_driver(options["database"], command="runjobs")
        worker = Worker(
            driver,
            queues=_queues(options["queues"]),
            threads=_threads(options["threads"]),
            burst=options["burst"],
            once=options["once"],
            grace_ms=_grace_ms(options["grace"]),
            before_leaving=lambda: self._summarise(worker.tally, as_json=options["json"]),
        )
        try:
            is_clean = worker.run()
        except OperationalError as error:
            raise _unavailable(str(driver.alias), error) from None
        self._summarise(worker.tally, as_json=options["json"])
        if not is_clean:
            sys.exit(1)

    def _summarise(self, tally: Tally, *, as_json: bool) -> None:
        counts = tally.as_dict()
        shown = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
        self.stdout.write(json.dumps(counts) if as_json else shown)


def show_events() -> None:
    """Write the worker's events to stderr where the site configured no logging for them."""
    subscribe(log_event)
    package = logging.getLogger("ultimate_jobs")
    if not package.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        package.addHandler(handler)
        package.setLevel(logging.INFO)


def _queues(given: list[str] | str | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    # call_command passes on whatever its caller gave.
    lists = [given] if isinstance(given, str) else given
    names = [name.strip() for names in lists for name in names.split(",") if name.strip()]
    if not names:
        raise _refused("--queues", "names no queue", "default")
    return tuple(dict.fromkeys(check_text("runjobs", "queue", name) for name in names))


def _threads(given: int | None) -> int | None:
    most = conf.MOST["THREADS"]
    if given is not None and not 1 <= given <= most:
        raise _refused("--threads", f"is not between 1 and {most}", "8")
    return given


def _grace_ms(given: float | None) -> int | None:
    if given is None:
        return None
    if not 0 <= given <= DAY:
        raise _refused("--grace", "is not between 0 seconds and a day", "25")
    return round(given * 1000)


def _refused(argument: str, problem: str, example: str) -> ArgumentInvalid:
    fix = f"manage.py runjobs {argument} {example}"
    return ArgumentInvalid(argument=argument, problem=problem, fix=fix)


def _unavailable(alias: str, error: OperationalError) -> DatabaseUnavailable:
    return DatabaseUnavailable(alias=alias, detail=str(error).strip().split("\n", 1)[0])
