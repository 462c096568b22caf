"""manage.py runjobs: start workers; it only parses and prints."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from django.core.management.base import CommandParser
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.utils import OperationalError

from ultimate_jobs import conf
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.errors import ArgumentInvalid, DatabaseUnavailable, DriverUnsupported
from ultimate_jobs.events import subscribe
from ultimate_jobs.identity import check_text
from ultimate_jobs.management.output import AnsweringCommand, chosen_driver
from ultimate_jobs.management.relaunch import command_line
from ultimate_jobs.observe.logs import log_event
from ultimate_jobs.processes.child import ChildProcess
from ultimate_jobs.processes.endpoint import Endpoint
from ultimate_jobs.processes.health import Health
from ultimate_jobs.processes.link import SupervisorLink
from ultimate_jobs.processes.outcomes import Tally
from ultimate_jobs.processes.supervisor import Supervisor
from ultimate_jobs.processes.worker import Worker

DAY = 86_400
LAST_PORT = 65_535
HEALTH_EXAMPLE = "127.0.0.1:8081"


class Command(AnsweringCommand):
    """One worker process, or a supervisor with several."""

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
        add("--processes", type=int, metavar="N", help="worker processes; by default PROCESSES")
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
        add(
            "--health",
            metavar="HOST:PORT",
            help="answer /livez and /readyz there over HTTP; by default nowhere",
        )
        add("--json", action="store_true", help="print the summary as JSON")
        add("--supervisor", type=int, metavar="FILE", help=argparse.SUPPRESS)

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
        count = _processes(options["processes"], driver)
        # Refused here already, rather than by each process.
        worker_options = {
            "queues": _queues(options["queues"]),
            "threads": _threads(options["threads"]),
            "burst": options["burst"],
            "once": options["once"],
            "grace_ms": _grace_ms(options["grace"]),
        }
        address = _address(options["health"])
        if options["burst"] and options["once"]:
            raise ArgumentInvalid(
                argument="--burst",
                problem="and --once are two ends of a worker",
                fix="manage.py runjobs --burst",
            )
        if count > 1:
            _rehearse(driver)
            is_clean = self._supervise(count, options, address)
        else:
            is_clean = self._work(driver, options, address, worker_options)
        if not is_clean:
            sys.exit(1)

    def _work(
        self,
        driver: Driver,
        options: dict[str, Any],
        address: tuple[str, int] | None,
        worker_options: dict[str, Any],
    ) -> bool:
        def say_last() -> None:
            if link is None:
                self._summarise(worker.tally, as_json=options["json"])
            else:
                link.report_last()

        is_supervised = options["supervisor"] is not None
        worker = Worker(
            driver, is_supervised=is_supervised, before_leaving=say_last, **worker_options
        )
        link = _link(options["supervisor"], worker)
        try:
            with _answering(address, worker.health):
                is_clean = worker.run()
        except OperationalError as error:
            raise _unavailable(str(driver.alias), error) from None
        say_last()
        return is_clean

    def _supervise(
        self, count: int, options: dict[str, Any], address: tuple[str, int] | None
    ) -> bool:
        def command(file: int) -> list[str]:
            changes = {"processes": 1, "health": None, "json": False, "skip_checks": True}
            return command_line(self, "runjobs", options, supervisor=file, **changes)

        grace_ms, settings = _grace_ms(options["grace"]), conf.settings()
        supervisor = Supervisor(
            lambda: ChildProcess(command),
            count=count,
            grace=(settings.grace_ms if grace_ms is None else grace_ms) / 1000,
            silence=settings.lease_ttl_ms / 1000,
            ends_by_itself=options["burst"] or options["once"],
        )
        # The checks have used one; a supervisor needs none.
        connections.close_all()
        with _answering(address, supervisor.health):
            is_clean = supervisor.run()
        self._summarise(supervisor.tally, as_json=options["json"])
        return is_clean

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


@contextmanager
def _answering(address: tuple[str, int] | None, health: Callable[[], Health]) -> Iterator[None]:
    """Answer probes meanwhile."""
    if address is None:
        yield
        return
    try:
        endpoint = Endpoint(*address, health)
    except OSError as error:
        problem = f"cannot be listened at: {error.strerror or error}"
        raise _refused("--health", problem, _beside(*address)) from None
    endpoint.start()
    try:
        yield
    finally:
        endpoint.stop()


def _beside(host: str, port: int) -> str:
    """Return an address that is not the one that was refused."""
    return f"{host}:{port + 1 if port < LAST_PORT else port - 1}"


def _rehearse(driver: Driver) -> None:
    """Refuse what no child could begin with, once and not once per child and second."""
    try:
        driver.rehearse(uuid4())
    except OperationalError as error:
        raise _unavailable(str(driver.alias), error) from None


def _link(file: int | None, worker: Worker) -> SupervisorLink | None:
    if file is None:
        return None
    try:
        link = SupervisorLink(file, worker.health, on_stop=worker.stop, on_hurry=worker.hurry)
    except OSError:
        raise _refused("--supervisor", "is for processes of a supervisor", "") from None
    link.start()
    return link


def _processes(given: int | None, driver: Driver) -> int:
    most = conf.MOST["PROCESSES"]
    if given is not None and not 1 <= given <= most:
        raise _refused("--processes", f"is not between 1 and {most}", "2")
    count = conf.settings().processes if given is None else given
    if count > 1 and not driver.supports_processes:
        raise DriverUnsupported(driver=driver.name, feature="more than one process")
    return count


def _address(given: str | None) -> tuple[str, int] | None:
    if given is None:
        return None
    host, _, port = given.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or int(port) > LAST_PORT:
        raise _refused("--health", "is no HOST:PORT", HEALTH_EXAMPLE)
    return host.removeprefix("[").removesuffix("]"), int(port)


def _queues(given: list[str] | str | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    # call_command passes on whatever its caller gave.
    lists = [given] if isinstance(given, str) else given
    names = [name.strip() for names in lists for name in names.split(",") if name.strip()]
    if not names:
        raise _refused("--queues", "names no queue", "default")
    return tuple(dict.fromkeys(check_text(None, "queue", name) for name in names))


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
