"""A poll claims, hands over in memory, and returns how long to sleep."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from ultimate_jobs.drivers.base import Claimer, Driver
from ultimate_jobs.events import emit
from ultimate_jobs.processes.acknowledger import Acknowledger
from ultimate_jobs.processes.crew import Census, Crew
from ultimate_jobs.processes.durations import prefetch
from ultimate_jobs.processes.event_loop import AsyncCrew
from ultimate_jobs.processes.leases import LeaseKeeper
from ultimate_jobs.processes.outcomes import Outcome
from ultimate_jobs.processes.slots import SHED_MS, SlotKeeper
from ultimate_jobs.services import attempts
from ultimate_jobs.types import Claim, Nack, Written

# Outcomes that may wait for the database before claiming slows down.
MAX_PENDING_BATCHES = 10
MAX_PENDING_SIZE = 64 * 1024 * 1024

# Seconds until it is asked again whether claiming is allowed.
BRIEF = 0.05
# So long at least between two looks at what is limited.
LEAST_PAUSE = 0.005
# How long a job waits whose earlier, lost body still runs here.
OVERLAP_MS = 1_000
# Seconds that a claim may wait unstarted: a machine that is busy for a moment is no reason to write
# hundreds of rows twice.
STALE = 1.0
# No claim may wait at all: there is room only where a thread starves.
NONE = -1


class Fetcher:
    """Claims what the crew can soon start, and never hoards.

    Args:
        batch: at most so many jobs per claim; no more than two claims wait unstarted.
        poll: seconds between looks at a queue that had nothing more.
        worth: seconds of work that may wait unstarted.
        slots: claims what is limited, and holds the slots of it; by default nothing is.
        aside: runs the jobs of ``async_names``, which take no thread: they are claimed apart, so
            that neither kind waits for the other's room.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        keeper: LeaseKeeper,
        crew: Crew,
        acknowledger: Acknowledger,
        names: tuple[str, ...],
        queues: tuple[str, ...] | None,
        batch: int,
        poll: float,
        worth: float,
        slots: SlotKeeper | None = None,
        aside: AsyncCrew | None = None,
        async_names: tuple[str, ...] = (),
    ) -> None:
        self._driver = driver
        self._keeper = keeper
        self._crew = crew
        self._acknowledger = acknowledger
        self._slots = SlotKeeper(driver) if slots is None else slots
        limits, apart = self._slots.limits, self._slots.avoids and bool(self._slots.limits)
        here = [name for name in (limits.unlimited if apart else names) if name not in async_names]
        there = [name for name in (limits.unlimited if apart else names) if name in async_names]

        def claimer(these: list[str]) -> Claimer:
            return driver.claimer(
                queues=queues,
                names=tuple(these),
                without=limits.queues if apart else (),
                survey_every=poll,
            )

        self._claimer = claimer(here)
        self._aside = aside
        self._async_claimer = claimer(there) if there else None
        self._claims_limited = apart
        self._limited_first = False
        # Whether there was room for limited jobs, and it was too soon to look.
        self._skipped = False
        # While unlimited jobs of this priority wait, limited ones of a lower one do not overtake.
        self._floor: int | None = None
        self._batch = batch
        self._poll = poll
        self._worth = worth
        self._in_doubt = False
        self.polls = 0
        self.found_nothing = False

    def poll(self) -> float:
        """Claim once, if there is room, and return how long to sleep.

        Afterwards ``found_nothing`` says whether nothing was due while nothing was in flight.
        """
        self.found_nothing = False
        if not self._may_claim():
            return BRIEF
        if self._in_doubt:
            self._give_back_unanswered()
        census = self._crew.census(long_busy=self._worth)
        if self._is_stale(census):
            self.give_back_unstarted(reason="waited too long")
            census = self._crew.census(long_busy=self._worth)
        was_quiet = census.in_flight == 0 and self._acknowledger.pending == 0
        # They take turns, so that neither kind gets every thread that comes free.
        self._limited_first = self._slots.has_freed or not self._limited_first
        limited = self._claim_limited(census) if self._limited_first else None
        asynchronous = self._claim_async()
        if limited:
            census = self._crew.census(long_busy=self._worth)
        hold = self._hold(census)
        limit = self._limit(census, hold)
        if limit < 1:
            if not self._limited_first:
                self._claim_limited(census)
            self._crew.call_when_room(hold // 2 if hold else NONE)
            return self._pause()
        claims = self._claim(self._claimer, limit)
        self._floor = min(one.priority for one in claims) if len(claims) == limit else None
        if not self._limited_first:
            limited = self._claim_limited(self._crew.census(long_busy=self._worth))
        self.polls += 1
        self.found_nothing = (
            was_quiet and not claims and not asynchronous and self._nothing_limited(limited)
        )
        if len(claims) == limit:
            return 0.0
        # An empty queue is looked at again after the pause, not whenever a thread is free.
        self._crew.call_off()
        return self._pause()

    def give_back_unstarted(self, *, reason: str) -> None:
        """Return the claims whose bodies have not begun, uncounted."""
        claims = self._crew.take_unstarted()
        self._give_back(claims)
        if claims:
            self._acknowledger.hurry()
            emit("jobs.worker.handed_back", count=len(claims), reason=reason)

    def _is_stale(self, census: Census) -> bool:
        """Whether claims wait longer than they were judged to: the bodies before them are long."""
        return census.idle == 0 and census.waited > max(STALE, 2 * self._worth)

    def _hold(self, census: Census) -> int:
        return prefetch(
            self._crew.durations.average,
            worth=self._worth,
            nimble=census.nimble,
            # Two, so that a whole batch is claimed while another is still worked off.
            most=2 * self._batch,
        )

    def _limit(self, census: Census, hold: int) -> int:
        wanted = census.idle + hold - census.unstarted
        if census.unstarted >= census.idle and 2 * wanted < hold:
            # Nobody starves: a later claim will be a bigger batch.
            return 0
        return min(self._batch, wanted)

    def _claim_limited(self, census: Census) -> int | None:
        """Claim limited jobs for threads that are idle; return how many, or that it was no time."""
        room = self._room(census) if self._claims_limited else 0
        self._skipped = room > 0 and self._slots.rest > 0
        if room < 1 or self._skipped:
            return None
        claims = self._hand_over(
            lambda worker: self._slots.claim(worker, room=room, floor=self._floor), first=True
        )
        return len(claims)

    def _room(self, census: Census) -> int:
        idle = census.idle - census.unstarted
        if idle > 0 or not self._hold(census):
            return min(self._batch, idle)
        # The bodies are short: what goes to the front of the line starts at once. Without this,
        # jobs that need no slot would leave none a thread.
        ahead = sum(self._slots.holds((one.id, one.token)) for one in self._crew.unstarted())
        return min(self._batch, 1 + census.nimble // 4 - ahead)

    def _nothing_limited(self, claimed: int | None) -> bool:
        return claimed == 0 if self._claims_limited else not self._slots.has_shed

    def _pause(self) -> float:
        # Whoever woke this worker may have spoken of what was not looked at.
        owed = [self._claimer.owed_in]
        if self._async_claimer is not None:
            owed.append(self._async_claimer.owed_in)
        owed_in = min((one for one in owed if one is not None), default=None)
        poll = self._poll if owed_in is None else min(self._poll, max(LEAST_PAUSE, owed_in))
        if self._slots.has_shed:
            return min(poll, SHED_MS / 1000)
        return min(poll, max(LEAST_PAUSE, self._slots.rest)) if self._skipped else poll

    def _may_claim(self) -> bool:
        lease, unwritten = self._keeper.current, self._acknowledger
        return (
            lease is not None
            and lease.stands()
            and unwritten.pending <= MAX_PENDING_BATCHES * self._batch
            and unwritten.pending_size <= MAX_PENDING_SIZE
        )

    def _claim_async(self) -> int:
        """Claim as many async jobs as begin at once; return how many came."""
        claimed = 0
        while self._async_claimer is not None and self._aside is not None:
            limit = min(self._batch, self._aside.room)
            claims = self._claim(self._async_claimer, limit) if limit else []
            claimed += len(claims)
            if len(claims) < self._batch:
                break
        return claimed

    def _claim(self, claimer: Claimer, limit: int) -> list[Claim]:
        def claim(worker: UUID) -> list[Claim]:
            return claimer.claim(worker, limit)

        if self._claims_limited or not self._slots.limits:
            return self._hand_over(claim)
        return self._hand_over(
            lambda worker: self._slots.claim_and_shed(worker, lambda: claim(worker))
        )

    def _hand_over(
        self, claim: Callable[[UUID], list[Claim]], *, first: bool = False
    ) -> list[Claim]:
        """Claim, and give the crew what came."""
        worker = self._keeper.worker
        self._in_doubt = True
        claims = claim(worker)
        self._in_doubt = False
        if claims:
            running = self._crew.running()
            # A body that runs here under a claim that was lost must end before it begins again.
            lost = {run.claim.id for run in running if run.claim.worker != worker}
            mine = [claim for claim in claims if claim.id not in lost] if lost else claims
            self._crew.put(mine, first=first)
            if lost:
                again = [claim for claim in claims if claim.id in lost]
                self._give_back(again, delay_ms=OVERLAP_MS)
        return claims

    def _give_back_unanswered(self) -> None:
        """Return what a claim took whose answer was lost with its connection.

        Nobody here knows these jobs, and the lease under which they run is renewed: without this
        they would run for ever. Only this thread claims, so what is unknown now stays unknown.
        """
        worker = self._keeper.worker
        # In this order: a claim goes from the crew to the acknowledger, and then leaves its row.
        known = self._crew.holds() | self._acknowledger.holds()
        unknown = [one for one in self._driver.leases.claims(worker) if one not in known]
        if unknown:
            nacks = [Nack(id_, token, counts_as_attempt=False) for id_, token in unknown]
            answers = self._driver.nack(worker, nacks)
            if any(answer.outcome is Written.BUSY for answer in answers):
                return
            emit("jobs.worker.handed_back", count=len(unknown), reason="the claim was unanswered")
        if self._slots.limits:
            self._slots.release_unknown(worker)
        self._in_doubt = False

    def _give_back(self, claims: list[Claim], *, delay_ms: int = 0) -> None:
        for claim in claims:
            self._acknowledger.add(Outcome(claim, attempts.hand_back(claim, delay_ms=delay_ms)))
