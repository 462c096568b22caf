"""One process of the ceiling's drain; it waits for a line, so that two begin at once.

Started as ``python -m example_project.bench.raw_drain``; it loads no Django.
"""

from __future__ import annotations

import json
import os
import sys

from example_project.bench import ceiling

CONNINFO = "BENCH_CONNINFO"
INSERTS = "--inserts"


def main() -> None:
    """Say that it is ready, wait, drain, and print begin, end and count."""
    with ceiling.connect(os.environ[CONNINFO]) as connection:
        print("ready", flush=True)
        # An end of the input without a line: whoever started this is gone.
        if sys.stdin.readline():
            told = ceiling.drain(connection, inserts=INSERTS in sys.argv)
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
