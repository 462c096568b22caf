"""manage.py bench: its flags and its exit code; the work is in ``bench``."""

from __future__ import annotations

import signal
import sys
from argparse import ArgumentParser
from typing import Any

from example_project.bench.options import PHASES, read_options
from example_project.bench.report import report_lines
from example_project.bench.run import measure
from example_project.places.demo.console import Console
from ultimate_jobs.management.output import AnsweringCommand

INTERRUPTED = 130


class Command(AnsweringCommand):
    """The bench; the result goes to standard output, what it does meanwhile to standard error."""

    help = "Measures the queue beside raw SQL on the same server, and leaves nothing behind."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--quick", action="store_true", help="small sizes: a look, in less than a minute")
        add("--only", nargs="+", metavar="PHASE", help=f"these only: {', '.join(PHASES)}")
        add("--scale", metavar="FACTOR", help="every size times this, from 0.001 to 100")
        add("--force", action="store_true", help="measure beside live jobs and workers of others")
        add("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **given: Any) -> None:
        options = read_options(given)
        console = Console(sys.stderr)
        _treat_as_interrupt("SIGTERM", "SIGHUP")
        try:
            result = measure(options, console.say)
        except KeyboardInterrupt:
            console.say("Interrupted; nothing of the bench is left in the database.")
            sys.exit(INTERRUPTED)
        if given["json"]:
            self.answer_json(result)
        else:
            for line in report_lines(result):
                self.stdout.write(line)


def _treat_as_interrupt(*names: str) -> None:
    """Python would end at once, and leave workers and rows behind.

    A signal that is ignored stays so: that is what ``nohup`` asks for.
    """
    for name in names:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
