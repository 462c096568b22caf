"""Processes that fork: the app's own, after it has enqueued."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.e2e.processes import ROOT, Database, environment

FORKED = str(Path(__file__).with_name("forked.py"))
CHILDREN, EACH = 4, 100


def test_enqueue_in_forked_children_shares_nothing_with_their_parent(database: Database) -> None:
    """Nothing of ours outlives Django's own connections: no socket, no lock and no id."""
    arguments = [sys.executable, "-W", "ignore", FORKED, str(CHILDREN), str(EACH)]

    done = subprocess.run(
        arguments,
        cwd=ROOT,
        env=environment(database.url),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert database.rows("select count(*), count(distinct idempotency_key) from x_jobs") == [
        ((CHILDREN + 2) * EACH, (CHILDREN + 2) * EACH)
    ]
