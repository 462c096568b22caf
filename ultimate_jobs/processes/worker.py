"""A worker process: one thread claims, some run bodies, and one each writes, renews and rescues."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from uuid import uuid4

from ultimate_jobs import conf
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.errors import JobsSchema
from ultimate_jobs.events import emit
from ultimate_jobs.hooks.middleware import load_middleware
from ultimate_jobs.processes.acknowledger import Acknowledger
from ultimate_jobs.processes.crew import Crew, Run
from ultimate_jobs.processes.deadlines import Deadlines, Watch
from ultimate_jobs.processes.departure import TICK, Departure
from ultimate_jobs.processes.event_loop import AsyncCrew
from ultimate_jobs.processes.executor import Executor
from ultimate_jobs.processes.fetcher import Fetcher
from ultimate_jobs.processes.health import Health, standing_still, unready
from ultimate_jobs.processes.heartbeat import Heartbeat
from ultimate_jobs.processes.janitor import Janitor
from ultimate_jobs.processes.leases import LeaseKeeper
from ultimate_jobs.processes.listener import Listener
from ultimate_jobs.processes.loops import Loop
from ultimate_jobs.processes.outcomes import Outcome, Tally, tell_ended
from ultimate_jobs.processes.retention import Retention
from ultimate_jobs.processes.slots import SlotKeeper
from ultimate_jobs.processes.stopping import Stop
from ultimate_jobs.processes.wakes import Wake
from ultimate_jobs.registry import declared_names, find_job
from ultimate_jobs.services import attempts
from ultimate_jobs.services.attempts import Committed, Doubtful, Ending
from ultimate_jobs.services.limits import Limits
from ultimate_jobs.states import JobState
from ultimate_jobs.types import WorkerCard

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
        is_supervised: a supervisor starts this process and tells it when to hurry.
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
        is_supervised: bool = False,
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
        self._stop = Stop(self._wake, grace=grace, second_signal_hurries=not is_supervised)
        on_bug = self._stop.fail
        limits = Limits(self._names, queues)
        self._slots = SlotKeeper(
            driver, limits, avoids=settings.claim_avoidance, on_free=self._wake.call
        )
        self._acknowledger = Acknowledger(
            driver,
            slots=self._slots,
            interval=settings.ack_interval_ms / 1000,
            batch=settings.claim_batch,
            on_written=self._on_written,
            on_bug=on_bug,
        )
        self._async_crew = AsyncCrew(
            settings.async_concurrency,
            lanes=self._threads,
            perform=lambda run, tidy: self._executor.perform_async(run, tidy),
            on_end=self._settle,
            on_idle=self._on_idle,
            on_room=self._wake.call,
            on_bug=on_bug,
        )
        self._crew = Crew(
            self._threads,
            self._work,
            on_idle=self._on_idle,
            on_room=self._wake.call,
            on_bug=on_bug,
            aside=self._async_crew,
        )
        self._keeper = LeaseKeeper(
            driver, card=self._card, ttl=settings.lease_ttl_ms / 1000, on_lost=self._crew.lose
        )
        self._deadlines = Deadlines(
            stuck_after=settings.stuck_after_ms / 1000, on_stuck=self._on_stuck, on_bug=on_bug
        )
        self._executor = Executor(
            stands=self._keeper.stands,
            max_result_bytes=settings.max_result_bytes,
            driver=driver,
            deadlines=self._deadlines,
        )
        self._fetcher = Fetcher(
            driver,
            keeper=self._keeper,
            crew=self._crew,
            acknowledger=self._acknowledger,
            slots=self._slots,
            aside=self._async_crew,
            async_names=tuple(name for name in self._names if find_job(name).is_async),
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
        self._retention = Retention(driver, on_bug=on_bug)
        self._begun = False
        self._listener = self._new_listener(settings.listen, on_bug=on_bug)
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
            SettingInvalid: MIDDLEWARE cannot be loaded; nothing was claimed.
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

    def hurry(self, reason: str = "asked") -> None:
        """Stop as the second signal does; called by any thread."""
        self._stop.hurry(reason)

    def health(self) -> Health:
        """Look at the loops and the lease; called by any thread, and asks no database."""
        claiming = [] if self._stop.requested else [self._fetching]
        stuck = standing_still([*claiming, *self._organs()])
        missing = unready(
            self._keeper.current,
            needs=[*claiming, self._heartbeat.loop],
            stopping=self._stop.requested,
        )
        census = self._crew.census(long_busy=0)
        return Health(
            live=not stuck,
            ready=self._begun and not stuck and not missing,
            begun=self._begun,
            why=(*stuck, *missing),
            pid=os.getpid(),
            running=census.running,
            unstarted=census.unstarted,
            unwritten=self._acknowledger.pending,
            tally=self.tally.as_dict(),
        )

    def _start(self) -> None:
        load_middleware()
        lease = self._keeper.take()
        try:
            # A schema that does not fit ends a worker that starts. Later it is waited for: then it
            # may be a migration under way.
            self._driver.rehearse(lease.worker)
        except JobsSchema:
            self._keeper.release()
            raise
        self._janitor.loop.attempt()
        for loop in self._loops():
            loop.start()
        self._deadlines.start()
        self._async_crew.start()
        self._crew.start(is_stopped=lambda: self._stop.requested)
        self._begun = True
        emit(
            "jobs.worker.started",
            worker=str(lease.worker),
            pid=os.getpid(),
            threads=self._threads,
            queues="all" if self._queues is None else ",".join(self._queues),
            jobs=len(self._names),
        )

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
        self._settle(run, self._executor.perform(run))

    def _settle(self, run: Run, ending: Ending) -> None:
        if isinstance(ending, Committed):
            tell_ended(run.claim, JobState.COMPLETED, self.tally)
            self._acknowledger.release(run.claim)
        elif isinstance(ending, Doubtful):
            self._acknowledger.add(Outcome(run.claim, ending.nack, in_doubt=True))
        elif ending is not None:
            self._acknowledger.add(Outcome(run.claim, ending))
        else:
            self._acknowledger.release(run.claim)

    def _on_stuck(self, watch: Watch) -> None:
        """Write the end of a body that does not stop, and end the process that it holds up."""
        run = watch.run
        retry = find_job(run.claim.name).retry
        ending = attempts.outlive(run.claim, watch.seconds, watch.frame(), retry=retry)
        is_lost = run.context.lost
        run.context.fence()
        self._slots.keep((run.claim.id, run.claim.token))
        emit("jobs.attempt.stuck", job_id=str(run.claim.id), job=run.claim.name)
        if not is_lost:
            self._acknowledger.add(Outcome(run.claim, ending))
        self._stop.recycle("a body outlived its timeout")

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
        # Without the listener a worker is slower to begin, and no less a worker.
        return self._organs() + ([] if self._listener is None else [self._listener.loop])

    def _organs(self) -> list[Loop]:
        heartbeat = self._heartbeat
        return [
            self._acknowledger.loop,
            heartbeat.loop,
            heartbeat.watch_loop,
            self._janitor.loop,
            self._retention.loop,
            self._backstop,
        ]

    def _close(self) -> None:
        self._crew.close(timeout=JOIN)
        self._async_crew.close(timeout=JOIN)
        self._deadlines.stop(timeout=JOIN)
        for loop in self._loops():
            loop.stop(timeout=JOIN)
        if self._listener is not None:
            self._listener.close()

    def _new_listener(
        self, listen: bool | str | None, *, on_bug: Callable[[], None]
    ) -> Listener | None:
        if not listen or not self._driver.supports_wakeups:
            return None
        address = listen if isinstance(listen, str) else None
        return Listener(
            self._driver.wakeups.subscription(address),
            queues=self._queues,
            may_be_pooled=address is not None,
            on_work=self._wake.call,
            on_bug=on_bug,
        )

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
