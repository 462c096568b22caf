"""The slots that this process holds: taken with a claim, given back once its end is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Lock
from uuid import UUID

from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.events import emit
from ultimate_jobs.services.limits import (
    Limits,
    in_turn,
    need_of,
    plan_limited,
    scope_names,
)
from ultimate_jobs.slots import Candidate, LimitedClaims, Slot, SlotNeed
from ultimate_jobs.types import Claim

Key = tuple[UUID, int]

# A look takes more than there is room for, since some of it may not fit; what blocks the front of
# the line is passed over by a bigger look.
FIRST_LOOK = 64
LONGEST_LOOK = 4096
# Other workers may be quicker with what was chosen; then it is chosen anew so often.
MAX_TRIES = 3
# Where claims are put back, they are tried again after so long.
SHED_MS = 50
STRAYS_EVERY = 5.0
MOST_TURNS = 10_000
# Where nothing was given back, a look is made at most so often that it takes a fifth of the time.
REST = 4.0
LEAST_REST = 0.01


class SlotKeeper:
    """Claims limited jobs for idle threads, and knows which slots each claim holds.

    Only the thread that claims calls ``claim``, ``claim_and_shed`` and ``release_unknown``; only
    the one that writes calls ``give_back``.

    Args:
        limits: what is limited of the names and queues of this worker; by default nothing.
        avoids: claims leave out what may not start, instead of putting it back.
        on_free: called after slots were given back.
        clock: seconds, for the pace of looks.
    """

    def __init__(
        self,
        driver: Driver,
        limits: Limits | None = None,
        *,
        avoids: bool = True,
        on_free: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = Limits((), None) if limits is None else limits
        self.avoids = avoids
        self._driver = driver
        self._on_free = on_free
        self._clock = clock
        self._lock = Lock()
        self._held: dict[Key, tuple[Slot, ...]] = {}
        self._kept: list[Slot] = []
        self._ended: list[Slot] = []
        # Until when looks rest, unless something is given back before.
        self._rests_until = 0.0
        self._freed = False
        self._shed_until = 0.0
        self._turns: dict[tuple[int, str], int] = {}
        self._turn = 0
        self._after_lane: dict[tuple[str, ...] | None, str] = {}
        self._strays_at = 0.0

    @property
    def ending(self) -> int:
        """How many slots are of claims that have ended, and are not yet given back."""
        return len(self._ended)

    @property
    def rest(self) -> float:
        """Seconds until the next look at what is limited is due; 0 or less is now."""
        return 0.0 if self._freed else self._rests_until - self._clock()

    @property
    def has_freed(self) -> bool:
        """Whether slots were given back since the last look: another job may start at once."""
        return self._freed

    @property
    def has_shed(self) -> bool:
        """Whether jobs that were put back are not yet due again."""
        return self._clock() < self._shed_until

    def holds(self, key: Key) -> bool:
        """Whether a claim holds slots, so that its end is to be written at once."""
        return key in self._held

    def claim(self, worker: UUID, *, room: int, floor: int | None = None) -> list[Claim]:
        """Claim at most ``room`` limited jobs that may start now, with their slots.

        Args:
            floor: leave jobs of a lower priority alone: unlimited ones of this one still wait.
        """
        claims: list[Claim] = []
        look = max(FIRST_LOOK, 4 * room)
        tries = 0
        began = self._clock()
        # Before the look: what is given back from here on asks for another.
        self._freed = False
        while len(claims) < room and tries < MAX_TRIES and look <= LONGEST_LOOK:
            used = self._driver.slots.used(self.limits.fixed_names)
            candidates = self._look(used, look, floor)
            needs = self._choose(used, candidates, room - len(claims))
            got = self._driver.slots.claim(worker, needs)
            self._remember(got)
            self._note_turns(got.claims)
            claims += got.claims
            if len(got.claims) < len(needs):
                tries += 1
            elif len(candidates) < look:
                break
            else:
                look *= 8
        now = self._clock()
        # With no room left there may be more; else there is none until something changes.
        pause = 0.0 if len(claims) == room else max(LEAST_REST, REST * (now - began))
        self._rests_until = now + pause
        return claims

    def claim_and_shed(self, worker: UUID, claim: Callable[[], list[Claim]]) -> list[Claim]:
        """Claim whatever is due, put back what may not start, and return the rest."""
        claimed, shed = self._driver.slots.claim_and_shed(
            worker, claim, self._choose_claims, delay_ms=SHED_MS
        )
        self._remember(claimed)
        if shed:
            self._shed_until = self._clock() + 2 * SHED_MS / 1000
        self.tell_shed(shed)
        return claimed.claims

    def release_unknown(self, worker: UUID) -> None:
        """Give back what a claim took whose answer was lost with its connection."""
        held = self._driver.slots.held_by(worker)
        with self._lock:
            known = {one for slots in self._held.values() for one in slots}
            known.update(self._kept, self._ended)
        places = {(one.id, one.token) for one in known}
        self._driver.slots.release([one for one in held if (one.id, one.token) not in places])

    def tell_shed(self, shed: Sequence[Claim]) -> None:
        """Announce claims that were put back because a limit is full: the one place for all."""
        for claim in shed:
            emit("jobs.worker.shed", job_id=str(claim.id), job=claim.name, queue=claim.queue)

    def ended(self, key: Key) -> None:
        """The end of a claim is committed, or the claim is another's: its slots are to go back."""
        with self._lock:
            self._ended += self._held.pop(key, ())

    def keep(self, key: Key) -> None:
        """Never give a claim's slots back: its body outlived its end, and may still act."""
        with self._lock:
            self._kept += self._held.pop(key, ())

    def give_back(self) -> None:
        """Release the slots of what has ended; the database's errors pass through."""
        with self._lock:
            ended = list(self._ended)
        if not ended:
            return
        self._driver.slots.release(ended)
        with self._lock:
            del self._ended[: len(ended)]
        self._freed = True
        self._on_free()

    def _look(self, used: dict[str, int], limit: int, floor: int | None) -> list[Candidate]:
        with_strays = self._is_time_for_strays()
        found: dict[UUID, Candidate] = {}
        for peek in self.limits.peeks(
            used, limit=limit, after_lanes=self._after_lane, with_strays=with_strays
        ):
            seen = self._driver.slots.peek(peek)
            found.update({one.id: one for one in seen.candidates})
            if peek.lane_names:
                self._after_lane[peek.queues] = seen.after_lane
        return [one for one in found.values() if floor is None or one.priority >= floor]

    def _choose(
        self, used: dict[str, int], candidates: list[Candidate], most: int
    ) -> list[SlotNeed]:
        needs = [need_of(one) for one in in_turn(candidates, self._turns)]
        more = set(scope_names(needs)).difference(self.limits.fixed_names)
        used = {**used, **self._driver.slots.used(list(more))}
        return plan_limited(needs, used, most=most)

    def _choose_claims(self, claims: list[Claim]) -> list[SlotNeed]:
        needs = [need_of(one) for one in claims]
        used = self._driver.slots.used(scope_names(needs))
        return plan_limited(needs, used, most=len(needs))

    def _remember(self, claimed: LimitedClaims) -> None:
        with self._lock:
            for claim in claimed.claims:
                slots = claimed.slots.get(claim.id, ())
                if slots:
                    self._held[claim.id, claim.token] = slots

    def _note_turns(self, claims: Sequence[Claim]) -> None:
        if len(self._turns) > MOST_TURNS:
            self._turns.clear()
        for claim in claims:
            self._turn += 1
            self._turns[claim.priority, claim.tenant or ""] = self._turn

    def _is_time_for_strays(self) -> bool:
        now = self._clock()
        if now < self._strays_at:
            return False
        self._strays_at = now + STRAYS_EVERY
        return True
