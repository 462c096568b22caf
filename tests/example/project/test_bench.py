"""``manage.py bench``: its arithmetic, its flags, and one small run in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psutil
import pytest

from example_project.bench import ceiling
from example_project.bench.arithmetic import (
    middle,
    per_second,
    percentile,
    ratio,
    smallest_over_mean,
    whole_windows,
)
from example_project.bench.jobs import noop
from example_project.bench.options import PHASES, QUICK, Sizes, read_options
from example_project.bench.report import report_lines
from example_project.bench.rows import Rows
from example_project.bench.run import PHASES as RUN
from example_project.bench.server import conninfo, refuse_company
from example_project.databases import PROJECT, database_url
from tests.example.conftest import run_python
from ultimate_jobs.errors import ArgumentInvalid
from ultimate_jobs.models import Job

TINY = (
    *("bench", "--quick", "--scale", "0.01"),
    *("--only", "enqueue_one", "drain_noop_1", "start_p50", "held_snapshot", "cost"),
)


def test_rate_and_ratio_say_nothing_of_nothing():
    """What was not measured is null, not zero and not a division by zero."""
    assert per_second(10, 2.0) == 5.0
    assert per_second(10, 0.0) == 0.0
    assert ratio(3.0, 4.0) == 0.75
    assert ratio(None, 4.0) is ratio(3.0, None) is ratio(3.0, 0.0) is None
    assert middle([]) is None
    assert middle([9.0, 1.0, 2.0]) == 2.0


@pytest.mark.parametrize(("percent", "expected"), [(50, 50), (95, 95), (99, 99), (100, 100)])
def test_percentile_is_a_value_that_was_measured(percent: int, expected: int):
    """The nearest rank of a hundred values is the value of that number."""
    assert percentile(list(range(100, 0, -1)), percent) == expected


def test_percentile_of_one_value_is_that_value():
    """A single measurement is every percentile."""
    assert percentile([7.0], 50) == percentile([7.0], 99) == 7.0


def test_a_stall_shows_as_the_smallest_window():
    """A window without an end is 0 of the mean, however fast the others were."""
    assert smallest_over_mean([100, 0, 100]) == 0.0
    assert smallest_over_mean([90, 100, 110]) == 0.9
    assert smallest_over_mean([]) is None


def test_a_cut_off_window_is_no_stall():
    """Eleven seconds hold two windows of five; the third was cut off."""
    assert whole_windows([50, 50, 10], seconds=11.0, window=5.0) == [50, 50]
    assert whole_windows([10], seconds=2.0, window=5.0) == []


def test_every_phase_can_be_run():
    """What ``--only`` takes is what the run knows, in the same order."""
    assert tuple(RUN) == PHASES


def test_flags_choose_phases_and_sizes():
    """Phases run in the bench's own order; a scale leaves rounds and windows alone."""
    options = read_options({"quick": True, "only": ["cost", "enqueue_one"], "scale": "0.5"})

    assert options.phases == ("enqueue_one", "cost")
    assert options.sizes.noop == QUICK.noop // 2
    assert options.sizes.rounds == QUICK.rounds
    assert options.sizes.window_seconds == QUICK.window_seconds
    assert read_options({}).sizes == Sizes()
    assert read_options({}).phases == PHASES


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"only": ["drain"]}, "--only takes enqueue_one"),
        ({"scale": "0"}, "--scale takes a number from"),
        ({"scale": "nan"}, "--scale takes a number from"),
        ({"scale": "much"}, "--scale takes a number from"),
    ],
)
def test_wrong_flag_is_refused(given: dict, problem: str):
    """A phase that does not exist, or a size that means nothing, is told before anything runs."""
    with pytest.raises(ArgumentInvalid) as caught:
        read_options(given)

    assert caught.value.cause.startswith(problem)
    assert caught.value.fix.startswith("manage.py bench ")


@pytest.mark.django_db
def test_bulk_rows_are_rows_as_enqueue_writes_them():
    """What SQL puts there differs from an enqueued job in nothing that a claim looks at."""
    rows = Rows("abc123")
    same = "name", "tenant_id", "state", "priority", "attempt", "max_attempts", "worker", "token"
    enqueued = Job.objects.get(id=noop.enqueue(run="abc123", n=99).id)

    numbers = rows.fill(3)

    filled = [Job.objects.get(id=rows.id_of(number)) for number in numbers]
    assert [job.payload for job in filled] == [{"run": "abc123", "n": n} for n in numbers]
    assert [job.idempotency_key for job in filled] == [f"abc123:{n}" for n in numbers]
    for job in filled:
        assert [getattr(job, name) for name in same] == [getattr(enqueued, name) for name in same]
        assert job.due_at == job.run_at


@pytest.mark.django_db
def test_recount_of_two_workers_is_of_the_time_they_shared():
    """A worker that began late, or ended early, counts neither for nor against two at once."""
    rows, start = Rows("abc123"), datetime(2026, 1, 1, tzinfo=UTC)
    early, late = uuid4(), uuid4()
    ends = [(early, 0, 1), (early, 1, 2), (late, 2, 3), (early, 2, 4), (late, 3, 6)]
    for number, (worker, claimed, finished) in zip(rows.fill(5), ends, strict=True):
        Job.objects.filter(id=rows.id_of(number)).update(
            state="completed",
            worker=worker,
            claimed_at=start + timedelta(seconds=claimed),
            finished_at=start + timedelta(seconds=finished),
        )

    found = rows.recount()

    # From 2, when the late one claimed, until 4, when the early one had ended.
    assert (found.workers, found.completed, found.counted, found.seconds) == (2, 5, 3, 2.0)
    assert rows.windows(2.0) == [1, 2, 1, 1]


@pytest.mark.django_db
def test_company_is_refused():
    """A live job of somebody else would be measured, and would run."""
    refuse_company()
    Job.objects.create(
        id=uuid4(), run_id=uuid4(), name="places.other", queue="q", idempotency_key="k",
        payload={}, state="ready",
    )  # fmt: skip

    with pytest.raises(ArgumentInvalid, match="1 live jobs of others"):
        refuse_company()


@pytest.mark.django_db(transaction=True)
def test_ceiling_drains_what_was_put():
    """The raw statements insert, claim and complete each row once, on the 3.0.0 columns."""
    rows = [(uuid4(), uuid4(), f"k{number}", "{}") for number in range(1_200)]
    with ceiling.connect(conninfo()) as connection:
        ceiling.make_table(connection)
        ceiling.insert_by_thousands(connection, rows, 3)
        ceiling.insert_by_thousands(connection, rows[:1], 3)

        _, _, done = ceiling.drain(connection, inserts=False)

        states = connection.execute(
            f"select state, attempt, count(*) from {ceiling.TABLE} group by 1, 2"
        ).fetchall()
        ceiling.drop_table(connection)
    assert done == 1_200
    assert states == [("completed", 1, 1_200)]


def test_bench_measures_and_leaves_nothing():
    """A tiny run fills its figures, agrees with the server's counters, and cleans up."""
    told = run_python("manage.py", *TINY, "--json", DATABASE_URL=database_url())

    assert told.returncode == 0, told.stdout + told.stderr
    found = json.loads(told.stdout)
    assert set(found) == {
        *("machine", "sizes", "ceiling", "ours", "ratio", "growth", "cost", "checks")
    }
    for name in ("enqueue_one", "drain_noop_1", "start_p50"):
        assert found["ours"][name] > 0
        assert found["ceiling"][name] > 0
        assert found["ratio"][name] > 0
    assert found["growth"]["held_snapshot"] > 0
    assert found["ratio"]["drain_noop_2"] is None
    assert {check["agrees"] for check in found["checks"].values()} == {True}
    assert found["cost"]["wal_bytes_per_drain"] > 0
    assert "drain_noop_1" in "\n".join(report_lines(found))
    assert what_is_left() == (0, 0, None)


def test_interrupted_bench_ends_its_workers_and_leaves_nothing():
    """Ctrl-C in the middle of a phase: no child goes on, and no row stays."""
    words = [sys.executable, "manage.py", "bench", "--quick", "--only", "churn_300k"]
    environment = {**os.environ, "DATABASE_URL": database_url()}
    bench = subprocess.Popen(
        # A shell's background job ignores Ctrl-C, and hands that down; SIGTERM counts as one.
        words, cwd=PROJECT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        children = wait_for_children(bench.pid)
        bench.send_signal(signal.SIGTERM)
        _, said = bench.communicate(timeout=60)
    finally:
        bench.kill()

    assert bench.returncode == 130, said
    assert [child for child in children if child.is_running()] == []
    assert what_is_left() == (0, 0, None)


def wait_for_children(pid: int) -> list[psutil.Process]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if children := psutil.Process(pid).children():
            return children
        time.sleep(0.02)
    raise AssertionError("the bench started no process")


def what_is_left() -> tuple:
    with ceiling.connect(database_url()) as connection:
        return connection.execute(
            "select (select count(*) from x_jobs where name like 'bench.%'),"
            " (select count(*) from bench_insertion), to_regclass('bench_ceiling')"
        ).fetchone()
