"""manage.py demo: its flags and its exit code; the work is in ``places/demo``."""

from __future__ import annotations

import json
import signal
import sys
from argparse import ArgumentParser
from typing import Any

from example_project.places.demo.console import Console
from example_project.places.demo.options import DEFAULT_PORT, NUMBERS, Options, read_options
from example_project.places.demo.report import report_lines
from example_project.places.demo.run import Run
from example_project.places.demo.serve import serve_admin
from ultimate_jobs.management.output import AnsweringCommand

INTERRUPTED = 130


class Command(AnsweringCommand):
    """The demo; the result goes to standard output, everything else to standard error."""

    help = "Runs real jobs for several tenants, and recounts by SQL what became of them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        for name, (default, _, _, what) in NUMBERS.items():
            parser.add_argument(f"--{name}", metavar="N", help=f"{what} (default {default})")
        parser.add_argument(
            "--serve",
            nargs="?",
            const=DEFAULT_PORT,
            metavar="PORT",
            help=f"then serve the admin on 127.0.0.1 until Ctrl-C (default port {DEFAULT_PORT})",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **given: Any) -> None:
        console = Console(sys.stderr)
        options = read_options(given)
        _treat_as_interrupt("SIGTERM", "SIGHUP")
        try:
            self._run(Run(options, console), options, console, as_json=given["json"])
        except KeyboardInterrupt:
            console.say("Interrupted. What still waits stays queued; the next demo cancels it.")
            sys.exit(INTERRUPTED)
        finally:
            console.end_live()

    def _run(self, run: Run, options: Options, console: Console, *, as_json: bool) -> None:
        result = run.work()
        faults = result.faults(options)
        if as_json:
            self.stdout.write(json.dumps(result.as_dict()))
            for fault in faults:
                console.say(fault)
        else:
            for line in report_lines(result, options, run.trace):
                self.stdout.write(line)
        self.stdout.flush()
        if options.port is not None:
            serve_admin(options.port, run.id, console)
        if faults:
            sys.exit(1)


def _treat_as_interrupt(*names: str) -> None:
    """Python would end at once, and leave the worker and the embedded server behind.

    A signal that is ignored stays so: that is what ``nohup`` asks for.
    """
    for name in names:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
