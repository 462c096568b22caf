"""Wall clocks of machines that are wrong, or jump, decide nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.app.jobs import gated, note
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import ROOT, Database, environment, eventually

SKEWED = str(Path(__file__).with_name("skewed.py"))
TEN_MINUTES = 600.0
SIX_HOURS = 21_600.0
# How long ago its last renewal may be, in the database's own time.
RENEWED = "select min(renewed_at) > %s::timestamptz + interval '3 s' from x_job_leases"


@pytest.fixture
def clock(tmp_path: Path) -> Callable[[str, float], str]:
    """Return a function that sets a clock by its name and answers the file it is read from."""

    def set_to(name: str, offset: float) -> str:
        path = tmp_path / f"clock-{name}"
        # A reader never sees a half-written number.
        path.with_suffix(".new").write_text(str(offset))
        path.with_suffix(".new").replace(path)
        return str(path)

    return set_to


def enqueue_on(url: str, clock: str, label: str, seconds: float) -> float:
    """Enqueue in a process on that clock, and return by how much its clock was wrong."""
    arguments = [sys.executable, SKEWED, "enqueue", label, str(seconds), clock]
    done = subprocess.run(
        arguments, cwd=ROOT, env=environment(url), capture_output=True, check=True, timeout=60
    )
    return float(done.stdout) - time.time()


def test_workers_on_clocks_ten_minutes_apart_behave_as_one(
    database: Database, start_worker: StartWorker, clock: Callable[[str, float], str]
) -> None:
    """Nobody's lease is taken for expired, and no delay ends early or late."""
    clocks = {
        "slow": clock("slow", -TEN_MINUTES),
        "right": clock("right", 0),
        "fast": clock("fast", TEN_MINUTES),
    }
    for name in clocks:
        gated.enqueue(label=f"long {name}", gate="gate")
    workers = [start_worker("--threads", "3", path, script=SKEWED) for path in clocks.values()]
    eventually(lambda: database.effects("long%") == 3, what="three long bodies")
    wrong_by = [enqueue_on(database.url, path, name, 3) for name, path in clocks.items()]

    eventually(lambda: database.effects("%now") == 3, what="what is due at once")
    started = database.value("select clock_timestamp()")
    eventually(lambda: database.effects("%later") == 3, what="what is due later")
    eventually(lambda: database.value(RENEWED, started), what="renewals past two leases")
    database.open("gate")
    eventually(lambda: database.count("completed") == 9, what="all done")

    assert wrong_by == pytest.approx([-TEN_MINUTES, 0, TEN_MINUTES], abs=60)
    assert [worker.stop() for worker in workers] == [0, 0, 0]
    assert database.rows("select distinct attempt, token, lost_leases from x_jobs") == [(1, 1, 0)]
    assert database.effects() == 9
    assert not [line for worker in workers for line in worker.log_lines("jobs.worker.lease_lost")]
    # Every moment in a row is the database's: in order, and within this test.
    assert database.value(
        "select bool_and(created_at <= claimed_at and claimed_at <= finished_at"
        " and due_at <= claimed_at and created_at > now() - interval '5 min'"
        " and finished_at <= now()) from x_jobs"
    )
    assert database.value(
        "select bool_and(claimed_at >= created_at + interval '3 s') from x_jobs"
        " where right(idempotency_key, 5) = 'later'"
    )


def test_wall_clock_that_jumps_neither_stops_a_worker_nor_ends_its_lease(
    database: Database, start_worker: StartWorker, clock: Callable[[str, float], str]
) -> None:
    """Six hours forward and twelve back: renewals, polls, a body and its grace go on."""
    path = clock("jumping", 0)
    gated.enqueue(label="long", gate="gate")
    worker = start_worker("--threads", "2", "--grace", "60", path, script=SKEWED)
    identity = worker.wait_until_started()
    eventually(lambda: database.effects("long") == 1, what="a running body")

    for number, offset in enumerate((SIX_HOURS, -SIX_HOURS)):
        clock("jumping", offset)
        jumped = database.value("select clock_timestamp()")
        note.enqueue(label=f"after jump {number}")
        eventually(
            lambda number=number: database.effects("after jump%") == number + 1,
            what="a job after the jump",
        )
        eventually(
            lambda jumped=jumped: database.value(RENEWED, jumped), what="renewals after the jump"
        )
    worker.send(signal.SIGTERM)
    eventually(lambda: worker.log_lines("jobs.worker.stopping"), what="a stopping worker")
    clock("jumping", SIX_HOURS)
    jumped = database.value("select clock_timestamp()")
    eventually(lambda: database.value(RENEWED, jumped), what="renewals in the grace")
    database.open("gate")

    assert worker.wait() == 0
    assert database.rows(
        "select distinct worker::text, state, attempt, lost_leases from x_jobs"
    ) == [(identity, "completed", 1, 0)]
    assert not worker.log_lines("jobs.worker.lease_lost")
    assert len(worker.log_lines("jobs.worker.started")) == 1
