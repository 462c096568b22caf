"""A worker process: one thread claims, some run bodies, and one each writes, renews and rescues."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from uuid import UUID, uuid4

from ultimate_jobs import conf
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.errors import JobsSchema
from ultimate_jobs.events import emit
from ultimate_jobs.processes.acknowledger import Acknowledger
from ultimate_jobs.processes.crew import Crew, Run
from ultimate_jobs.processes.departure import TICK, Departure
from ultimate_jobs.processes.executor import Executor
from ultimate_jobs.processes.fetcher import Fetcher
from ultimate_jobs.processes.heartbeat import Heartbeat
from ultimate_jobs.processes.janitor import Janitor
from ultimate_jobs.processes.leases import LeaseKeeper
from ultimate_jobs.processes.loops import Loop
from ultimate_jobs.processes.outcomes import Outcome, Tally
from ultimate_jobs.processes.stopping import Stop
from ultimate_jobs.processes.wakes import Wake
from ultimate_jobs.registry import declared_names
from ultimate_jobs.types import ClaimRequest, Completion, Nack, WorkerCard

logger = logging.getLogger("ultimate_jobs.processes")

# Seconds that a part may take to end its present step.
JOIN = 2.0


class Worker:
    """Claims and runs jobs until it is told to stop.

    Args:
        queues: the queues to serve; ``None`` serves every queue that has work.
        burst: stop when nothing is due and nothing is in flight.
        once: claim one time, at most a job per thread, and stop when those have ended.
        grace_ms: how long running bodies may go on after the first signal.
        before_leaving: called before the process is left with bodies still running.
        leave: ends the process at once, with an exit code.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        queues: tuple[str, ...] | None = None,
        threads: int | None = None,
        burst: bool = False,
        once: bool = False,
        grace_ms: int | None = None,
        before_leaving: Callable[[], None] = lambda: None,
        leave: Callable[[int], None] = os._exit,
    ) -> None:
        settings = conf.settings()
        self._driver = driver
        self._queues = queues
        self._names = declared_names()
        self._threads = settings.threads if threads is None else threads
        self._ends_when_empty = burst or once
        self._once = once
        self._wake = Wake()
        grace = (settings.grace_ms if grace_ms is None else grace_ms) / 1000
        self._stop = Stop(self._wake, grace=grace)
        on_bug = self._stop.fail
        self._acknowledger = Acknowledger(
            driver,
            interval=settings.ack_interval_ms / 1000,
            batch=settings.claim_batch,
            on_written=self._on_written,
            on_bug=on_bug,
        )
        self._crew = Crew(
            self._threads,
            self._work,
            on_idle=self._on_idle,
            on_room=self._wake.call,
            on_bug=on_bug,
        )
        self._keeper = LeaseKeeper(
            driver, card=self._card, ttl=settings.lease_ttl_ms / 1000, on_lost=self._crew.lose
        )
        self._executor = Executor(
            stands=self._keeper.stands, max_result_bytes=settings.max_result_bytes
        )
        self._fetcher = Fetcher(
            driver,
            keeper=self._keeper,
            crew=self._crew,
            acknowledger=self._acknowledger,
            names=self._names,
            queues=queues,
            batch=settings.claim_batch,
            poll=settings.poll_ms / 1000,
            worth=settings.prefetch_ms / 1000,
        )
        self._fetching = Loop("fetcher", self._fetcher.poll, alias=driver.alias, on_bug=on_bug)
        self._heartbeat = Heartbeat(
            driver,
            self._keeper,
            interval=settings.heartbeat_ms / 1000,
            on_cancel=self._crew.cancel,
            on_bug=on_bug,
        )
        self._janitor = Janitor(driver, interval=settings.rescue_interval_ms / 1000, on_bug=on_bug)
        self._departure = Departure(
            driver,
            stop=self._stop,
            wake=self._wake,
            crew=self._crew,
            acknowledger=self._acknowledger,
            keeper=self._keeper,
            before_leaving=before_leaving,
            leave=leave,
        )
        self._backstop = Loop("backstop", self._departure.leave_if_stuck, alias=None, on_bug=on_bug)

    @property
    def tally(self) -> Tally:
        """How many claims ended how."""
        return self._acknowledger.tally

    def run(self) -> bool:
        """Work until stopped; return whether everything ended in order.

        Raises:
            JobsSchema: the database is not at this release's schema; nothing was claimed.
        """
        with self._stop.on_signals():
            try:
                self._start()
                self._serve()
                return self._finish()
            finally:
                self._close()

    def stop(self, reason: str = "asked") -> None:
        """Stop as the first signal does; called by any thread."""
        self._stop.request(reason)

    def _start(self) -> None:
        lease = self._keeper.take()
        try:
            self._rehearse(lease.worker)
        except JobsSchema:
            self._keeper.release()
            raise
        self._janitor.loop.attempt()
        for loop in self._loops():
            loop.start()
        self._crew.start(is_stopped=lambda: self._stop.requested)
        emit(
            "jobs.worker.started",
            worker=str(lease.worker),
            pid=os.getpid(),
            threads=self._threads,
            queues="all" if self._queues is None else ",".join(self._queues),
            jobs=len(self._names),
        )

    def _rehearse(self, worker: UUID) -> None:
        """Run each verb once on nothing: a schema that does not fit ends a worker that starts.

        Later it is waited for: then it may be a migration under way.
        """
        self._driver.claim(ClaimRequest(worker, names=("",), limit=1, queues=("",)))
        self._driver.ack(worker, [Completion(worker, token=0)])
        self._driver.nack(worker, [Nack(worker, token=0)])

    def _serve(self) -> None:
        try:
            self._fetch_until_stopped()
        except Exception:
            logger.exception("the fetcher of this worker failed; the worker stops")
            self._stop.fail()

    def _fetch_until_stopped(self) -> None:
        pause = self._fetching.attempt()
        while not self._stop.requested:
            if self._is_done():
                self._stop.request("claimed once" if self._once else "nothing is due")
            else:
                self._wake.pause(pause)
                pause = self._next_poll()

    def _next_poll(self) -> float:
        if self._once and self._fetcher.polls:
            return TICK
        return self._fetching.attempt()

    def _is_done(self) -> bool:
        if self._once:
            return self._fetcher.polls > 0 and self._departure.is_quiet()
        return self._ends_when_empty and self._fetcher.found_nothing

    def _work(self, run: Run) -> None:
        ending = self._executor.perform(run)
        if ending is not None:
            self._acknowledger.add(Outcome(run.claim, ending))

    def _on_idle(self) -> None:
        """Called under the crew's lock."""
        if self._acknowledger.pending:
            self._acknowledger.hurry()
        elif self._awaits_quiet:
            self._wake.call()

    def _on_written(self) -> None:
        if self._awaits_quiet and self._departure.is_quiet():
            self._wake.call()

    @property
    def _awaits_quiet(self) -> bool:
        """Whether the main thread waits for the end of everything in flight."""
        return self._ends_when_empty or self._stop.requested

    def _finish(self) -> bool:
        emit("jobs.worker.stopping", reason=self._stop.reason, **self._in_flight())
        self._fetcher.give_back_unstarted(reason=self._stop.reason)
        if not self._departure.wait_for_bodies():
            self._departure.leave_bodies_behind()
            return False
        self._close()
        self._departure.release()
        return not self._stop.failed

    def _in_flight(self) -> dict[str, int]:
        census = self._crew.census(long_busy=0)
        return {"running": census.running, "unstarted": census.unstarted}

    def _loops(self) -> list[Loop]:
        heartbeat = self._heartbeat
        return [
            self._acknowledger.loop,
            heartbeat.loop,
            heartbeat.watch_loop,
            self._janitor.loop,
            self._backstop,
        ]

    def _close(self) -> None:
        self._crew.close(timeout=JOIN)
        for loop in self._loops():
            loop.stop(timeout=JOIN)

    def _card(self) -> WorkerCard:
        return WorkerCard(
            worker=uuid4(),
            names=self._names,
            queues=self._queues,
            hostname=socket.gethostname(),
            pid=os.getpid(),
            threads=self._threads,
            app_version=conf.settings().app_version,
        )
