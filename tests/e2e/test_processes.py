"""``--processes``: a supervisor replaces who dies or stands still, and ends them all."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.app.jobs import gated, work
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import Database, Worker, eventually, fact

LIVING = (
    "select (info->>'pid')::int from x_job_leases where kind = 'worker' and expires_at > x_now()"
)


def children(supervisor: Worker) -> list[int]:
    """Return the pids that it started, in order."""
    return [
        int(fact(line, "pid")) for line in supervisor.log_lines("jobs.supervisor.child_started")
    ]


def workers(database: Database) -> set[int]:
    return {pid for (pid,) in database.rows(LIVING)}


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def supervise(start_worker: StartWorker) -> Iterator[Callable[..., Worker]]:
    """Start supervisors; no child of theirs outlives its test."""
    started: list[Worker] = []

    def start(*arguments: str, **options: Any) -> Worker:
        started.append(start_worker(*arguments, **options))
        return started[-1]

    yield start
    for supervisor in started:
        supervisor.end()
        for pid in children(supervisor):
            # A pid of a child that was reaped may be another's by now: only ours is ours.
            if is_alive(pid) and b"--supervisor" in command_of(pid):
                os.kill(pid, signal.SIGKILL)


def command_of(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as command:
            return command.read()
    except FileNotFoundError:
        return b""


def wait_for_workers(database: Database, count: int) -> set[int]:
    return set(
        eventually(
            lambda: len(found := workers(database)) == count and found,
            within=60,
            what=f"{count} workers",
        )
    )


def test_burst_of_several_processes_ends_when_all_have(
    database: Database, supervise: Callable[..., Worker]
) -> None:
    """Each job once, the work is shared, one summary, exit 0."""
    work.enqueue_many([{"label": f"{number:03}", "seconds": 0.02} for number in range(200)])

    supervisor = supervise("--processes", "2", "--threads", "2", "--burst", "--json")

    assert supervisor.wait(within=90) == 0, supervisor.log
    assert database.effects() == 200
    assert supervisor.process.stdout is not None
    assert json.loads(supervisor.process.stdout.read())["completed"] == 200
    assert len(children(supervisor)) == 2
    assert database.value("select count(*) from x_job_leases") == 0


def test_killed_child_is_replaced_and_its_jobs_are_finished(
    database: Database, supervise: Callable[..., Worker]
) -> None:
    """SIGKILL of one process loses nothing and leaves the number of processes as it was."""
    gated.enqueue_many([{"label": f"{number}", "gate": "gate"} for number in range(4)])
    supervisor = supervise("--processes", "2", "--threads", "2")
    eventually(lambda: database.effects() == 4, within=60, what="four running bodies")
    before = workers(database)
    victim = min(before)

    os.kill(victim, signal.SIGKILL)
    eventually(
        lambda: len(now := workers(database)) == 2 and victim not in now,
        within=60,
        what="a replacement",
    )
    database.open("gate")
    eventually(lambda: database.count("completed") == 4, within=60, what="the jobs of the dead")

    assert supervisor.stop(within=60) == 0, supervisor.log
    [ended] = supervisor.log_lines("jobs.supervisor.child_ended")
    assert (fact(ended, "pid"), fact(ended, "exit")) == (str(victim), "SIGKILL")
    assert database.value("select max(lost_leases) from x_jobs") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_to_the_supervisor_ends_all_in_order(
    number: signal.Signals, database: Database, supervise: Callable[..., Worker]
) -> None:
    """What runs may end, what waits goes back, no lease is left, exit 0."""
    work.enqueue_many([{"label": f"{number:03}", "seconds": 0.05} for number in range(400)])
    supervisor = supervise("--processes", "2", "--threads", "2", "--grace", "30")
    wait_for_workers(database, 2)
    eventually(lambda: database.count("completed") > 10, what="workers under load")

    supervisor.send(number)

    assert supervisor.wait(within=60) == 0, supervisor.log
    assert database.count("running") == 0
    assert database.value("select count(*) from x_job_leases") == 0
    assert database.rows("select distinct attempt from x_jobs where state = 'ready'") == [(0,)]
    assert database.effects() == database.count("completed")
    assert not any(is_alive(pid) for pid in children(supervisor))


def test_signal_to_the_whole_group_is_one_signal(
    database: Database, supervise: Callable[..., Worker]
) -> None:
    """A service manager signals each process itself; that must not count as the second one."""
    # One for each, for an idle child would be gone before it is signalled.
    gated.enqueue_many([{"label": f"grace {number}", "gate": "gate"} for number in range(2)])
    supervisor = supervise("--processes", "2", "--threads", "1", "--grace", "60")
    eventually(lambda: database.effects() == 2, within=60, what="two running bodies")
    pids = wait_for_workers(database, 2)

    supervisor.send(signal.SIGTERM)
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    eventually(lambda: len(supervisor.log_lines("jobs.worker.stopping")) == 2, what="a stop")
    database.open("gate")

    assert supervisor.wait(within=60) == 0, supervisor.log
    assert database.rows("select state, attempt from x_jobs") == [("completed", 1)] * 2


def test_second_signal_ends_all_at_once(
    database: Database, supervise: Callable[..., Worker]
) -> None:
    """Whatever is left of the grace; the job goes back uncounted."""
    gated.enqueue(label="too long", gate="gate")
    supervisor = supervise("--processes", "2", "--grace", "600")
    eventually(lambda: database.effects() == 1, within=60, what="a running body")
    wait_for_workers(database, 2)
    supervisor.send(signal.SIGINT)
    eventually(lambda: supervisor.log_lines("jobs.supervisor.stopping"), what="a stop")

    supervisor.send(signal.SIGTERM)

    assert supervisor.wait(within=30) == 1
    assert database.rows("select state, attempt from x_jobs") == [("ready", 0)]


def test_children_of_a_killed_supervisor_leave_in_order(
    database: Database, supervise: Callable[..., Worker]
) -> None:
    """They notice, let their bodies end, and give their leases back."""
    gated.enqueue(label="goes on", gate="gate")
    supervisor = supervise("--processes", "2", "--grace", "60")
    eventually(lambda: database.effects() == 1, within=60, what="a running body")
    pids = wait_for_workers(database, 2)

    supervisor.kill()
    eventually(lambda: len(supervisor.log_lines("jobs.worker.stopping")) == 2, what="a stop")
    database.open("gate")
    eventually(lambda: not any(is_alive(pid) for pid in pids), within=60, what="their end")

    assert database.rows("select state, attempt, lost_leases from x_jobs") == [("completed", 1, 0)]
    assert database.value("select count(*) from x_job_leases") == 0
    reasons = {
        line.partition("reason=")[2][:22] for line in supervisor.log_lines("jobs.worker.stopping")
    }
    assert reasons == {"the supervisor is gone"}


def test_frozen_child_is_killed_and_replaced(
    database: Database, supervise: Callable[..., Worker]
) -> None:
    """A process that stands still reports nothing; its jobs go on elsewhere."""
    gated.enqueue(label="stands still", gate="gate")
    supervisor = supervise("--threads", "1", settings={"PROCESSES": 2})
    eventually(lambda: database.effects() >= 1, within=60, what="a running body")
    wait_for_workers(database, 2)
    holder = database.value(
        "select (l.info->>'pid')::int from x_jobs j join x_job_leases l on l.holder = j.worker "
        "where l.kind = 'worker' and j.state = 'running'"
    )

    os.kill(holder, signal.SIGSTOP)
    eventually(
        lambda: not is_alive(holder) and len(workers(database)) == 2, within=90, what="a new one"
    )
    database.open("gate")
    eventually(lambda: database.count("completed") == 1, within=60, what="the job")

    assert supervisor.stop(within=60) == 0, supervisor.log
    [stuck] = supervisor.log_lines("jobs.supervisor.child_stuck")
    assert fact(stuck, "pid") == str(holder)


def test_child_that_cannot_begin_is_told_and_tried_on(
    database: Database, supervise: Callable[..., Worker]
) -> None:
    """A schema that changes meanwhile is waited for, with growing pauses; the supervisor stays."""
    supervisor = supervise("--processes", "2", "--threads", "1")
    wait_for_workers(database, 2)
    database.rows("alter table x_jobs rename column result to later")
    try:
        for child in children(supervisor):
            os.kill(child, signal.SIGKILL)
        eventually(
            lambda: supervisor.log_lines("jobs.supervisor.child_failing"),
            within=90,
            what="a raised voice",
        )
        assert "X_JOBS_SCHEMA" in supervisor.log
    finally:
        database.rows("alter table x_jobs rename column later to result")

    wait_for_workers(database, 2)
    assert supervisor.stop(within=60) == 0


def test_supervisor_refuses_a_schema_that_no_child_could_begin_with(
    database: Database, supervise: Callable[..., Worker]
) -> None:
    """Once, and not once per child and second."""
    database.rows("alter table x_jobs rename column result to later")
    try:
        supervisor = supervise("--processes", "2", "--burst")
        code = supervisor.wait(within=90)
    finally:
        database.rows("alter table x_jobs rename column later to result")

    assert code == 1
    assert children(supervisor) == []
    assert "X_JOBS_SCHEMA" in supervisor.log
    assert "Traceback" not in supervisor.log
