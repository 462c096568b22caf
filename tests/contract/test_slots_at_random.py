"""Any sequence of takings, releases, renewals, deaths and waits keeps every limit."""

from __future__ import annotations

from uuid import UUID

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ultimate_jobs.ids import new_id
from ultimate_jobs.limits import Scope
from ultimate_jobs.slots import Slot, SlotNeed

from .harness import Harness

LIMITS = {"one": 1, "two": 2, "three": 3}
STEP_MS = 4_000

takes = st.tuples(
    st.just("take"),
    st.integers(0, 2),
    st.lists(st.sampled_from(sorted(LIMITS)), min_size=1, max_size=3, unique=True),
)
acts = st.one_of(
    takes,
    takes,
    st.tuples(st.just("release"), st.integers(0, 20), st.just([])),
    st.tuples(st.just("heartbeat"), st.integers(0, 2), st.just([])),
    st.tuples(st.just("leave"), st.integers(0, 2), st.just([])),
    st.tuples(st.just("wait"), st.integers(1, 9), st.just([])),
)


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(acts=st.lists(acts, max_size=25))
def test_valid_slots_never_exceed_the_limit(driver: Harness, acts: list) -> None:
    """A model that knows only the rules says how many are valid; the driver has as many."""
    driver.renew()
    model = Model(driver)
    for act, number, names in acts:
        getattr(model, act)(number, names)
        model.check()


class Model:
    """Who holds what until when, by the driver's own clock."""

    def __init__(self, driver: Harness) -> None:
        self._driver = driver
        self._slots = driver.driver.slots
        self._workers = [driver.start_worker() for _ in range(3)]
        self._scopes = {
            name: Scope(f"limiter:{driver.queue}:{name}", most) for name, most in LIMITS.items()
        }
        self._now = 0
        # Each taking: its slots by name, its worker, and when it expires.
        self._held: list[tuple[dict[str, Slot], UUID, list[int]]] = []

    def take(self, number: int, names: list[str]) -> None:
        worker = self._workers[number]
        need = SlotNeed(new_id(), tuple(self._scopes[name] for name in names))
        fits = all(self._valid(name) < LIMITS[name] for name in names)

        got = self._slots.take(worker, [need])

        assert bool(got) is fits
        if got:
            slots = dict(zip(names, sorted_by(names, self._scopes, got[need.job]), strict=True))
            self._held.append((slots, worker, [self._now + self._driver.lease_ttl_ms]))

    def release(self, number: int, _: list[str]) -> None:
        # Also one that was released, or has expired, before.
        if self._held:
            slots, _worker, ends = self._held[number % len(self._held)]
            self._slots.release(list(slots.values()))
            ends[0] = 0

    def heartbeat(self, number: int, _: list[str]) -> None:
        worker = self._workers[number]
        self._driver.driver.heartbeat(worker)
        for _slots, holder, ends in self._held:
            if holder == worker and ends[0] > self._now and self._stands(worker):
                ends[0] = self._now + self._driver.lease_ttl_ms

    def leave(self, number: int, _: list[str]) -> None:
        worker = self._workers[number]
        self._driver.driver.leases.release(worker)
        self._workers[number] = self._driver.start_worker()
        for _slots, holder, ends in self._held:
            if holder == worker:
                ends[0] = 0

    def wait(self, number: int, _: list[str]) -> None:
        self._driver.advance(number * STEP_MS)
        self._now += number * STEP_MS

    def check(self) -> None:
        used = self._slots.used([scope.name for scope in self._scopes.values()])
        for name, scope in self._scopes.items():
            assert used.get(scope.name, 0) == self._valid(name) <= LIMITS[name]

    def _valid(self, name: str) -> int:
        return sum(name in slots and ends[0] > self._now for slots, _, ends in self._held)

    def _stands(self, worker: UUID) -> bool:
        return any(
            one.worker == worker and not one.expired for one in self._driver.driver.leases.workers()
        )


def sorted_by(names: list[str], scopes: dict[str, Scope], slots: tuple[Slot, ...]) -> list[Slot]:
    """Return slots in the order of the names they are of."""
    by_name = {slot.name: slot for slot in slots}
    return [by_name[scopes[name].name] for name in names]
