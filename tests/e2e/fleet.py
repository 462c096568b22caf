"""Workers that are killed at random and replaced, and the slots that are valid meanwhile."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import psycopg

from tests.e2e.conftest import StartWorker
from tests.e2e.processes import Database, Worker, eventually
from tests.e2e.test_processes import children, command_of, is_alive

# The lease of the killed is what their jobs and slots wait for. The poll is the shipped one.
KILLED = {"LEASE_TTL": 3, "HEARTBEAT": 0.5, "POLL": 0.25}
LIVING = """
    select holder::text, (info ->> 'pid')::int from x_job_leases
    where kind = 'worker' and expires_at > x_now()"""
HIT = """
    select count(*), count(*) filter (where exists (
        select from testapp_effect e where e.job_id = j.id and e.pid = %s))
    from x_jobs j where j.worker = %s::uuid and j.state = 'running'"""
# How many slots are valid, and whether a limited job is due, and anybody there to take one for it.
SLOTS = """
    select count(*), exists (
        select from x_job_leases where kind = 'worker' and expires_at > x_now()
    ) and exists (
        select from x_jobs where name = %s and state in ('ready', 'delayed') and run_at <= x_now())
    from x_job_leases where kind = 'slot' and expires_at > x_now()"""


class Fleet:
    """Workers that are killed at random: two of their own and two under one supervisor."""

    def __init__(self, database: Database, start: StartWorker, seed: int) -> None:
        self._database = database
        self._start = start
        self._chance = random.Random(seed)
        self.single = [self._started() for _ in range(2)]
        self.supervisors = [self._started("--processes", "2")]
        self._gone: list[Worker] = []
        self.died_at: dict[int, datetime] = {}

    def _started(self, *arguments: str) -> Worker:
        return self._start("--threads", "8", *arguments, settings=KILLED)

    def kill_one(self) -> tuple[str, int, int]:
        """Kill one at random; return what it was, and how many claims and begun bodies it had."""
        living = [row for row in self._database.rows(LIVING) if row[1] not in self.died_at]
        living = [row for row in living if b"runjobs" in command_of(row[1])]
        if not living:
            return ("nobody: all are starting", 0, 0)
        # Now and then the supervisor itself, whose children then end as well.
        if self._chance.random() < 0.1:
            return self._kill_a_supervisor()
        holder, pid = self._chance.choice(living)
        own = [worker for worker in self.single if worker.pid == pid]
        if own:
            own[0].kill()
            self.single.remove(own[0])
            self._gone.append(own[0])
            self.single.append(self._started())
        else:
            os.kill(pid, signal.SIGKILL)
            eventually(lambda: not is_alive(pid), what="a dead child")
        self.died_at[pid] = self._database.value("select clock_timestamp()")
        running, begun = self._database.rows(HIT, pid, holder)[0]
        return (f"{'worker' if own else 'child'} {pid}", running, begun)

    def _kill_a_supervisor(self) -> tuple[str, int, int]:
        [supervisor] = self.supervisors
        supervisor.kill()
        self._gone.append(supervisor)
        self.supervisors = [self._started("--processes", "2")]
        return (f"supervisor {supervisor.pid}", 0, 0)

    def stop(self) -> list[int]:
        """Return the exit codes of those that stand."""
        return [worker.stop(within=40) for worker in (*self.single, *self.supervisors)]

    @property
    def leases_lost(self) -> int:
        """How often a living one lost its lease: then its bodies may overlap with others'."""
        logs = (*self.single, *self.supervisors, *self._gone)
        return sum(len(worker.log_lines("jobs.worker.lease_lost")) for worker in logs)

    def end(self) -> None:
        for worker in (*self.single, *self.supervisors):
            worker.end()
        for supervisor in (*self.supervisors, *self._gone):
            for pid in children(supervisor):
                if is_alive(pid) and b"--supervisor" in command_of(pid):
                    os.kill(pid, signal.SIGKILL)


@contextmanager
def sampled_slots(url: str, name: str) -> Iterator[list[tuple[int, bool]]]:
    """Count the valid slots all the time, over a connection of their own."""
    samples: list[tuple[int, bool]] = []
    ended = threading.Event()

    def sample() -> None:
        with psycopg.connect(url, autocommit=True) as own:
            while not ended.wait(0.01):
                samples.extend(own.execute(SLOTS, [name]).fetchall())

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join(10)
