"""The slots of one process: taken with a claim, given back once, never lost and never doubled."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.contract.harness import Harness, MemoryHarness
from ultimate_jobs import JobContext, Limiter, job
from ultimate_jobs.processes.slots import SlotKeeper
from ultimate_jobs.services.limits import Limits
from ultimate_jobs.types import Claim

pytestmark = pytest.mark.usefixtures("own_registry")


@pytest.fixture
def queue() -> Harness:
    """The memory driver, whose time stands still."""
    return MemoryHarness()


class Keeper(SlotKeeper):
    """A keeper of the harness's job, on a clock that the test moves."""

    def __init__(self, queue: Harness, **options: Any) -> None:
        @job(key="{n}", name=queue.name, queue=queue.queue, **options)
        def limited(ctx: JobContext, n: int) -> None: ...

        self.time, self.freed = 100.0, 0
        self.worker = queue.start_worker()
        super().__init__(
            queue.driver,
            Limits((queue.name,), (queue.queue,)),
            on_free=self._count,
            clock=lambda: self.time,
        )

    def _count(self) -> None:
        self.freed += 1

    def get(self, room: int = 10, **options: Any) -> list[Claim]:
        return self.claim(self.worker, room=room, **options)


def key(claim: Claim) -> tuple[UUID, int]:
    return (claim.id, claim.token)


def used(queue: Harness) -> int:
    return queue.driver.slots.used([f"job:{queue.name}"]).get(f"job:{queue.name}", 0)


def test_claim_takes_no_more_than_there_is_room_for(queue: Harness) -> None:
    """No slot is held by a job that waits for a thread."""
    keeper = Keeper(queue, concurrency=5)
    for _ in range(10):
        queue.enqueue()

    assert len(keeper.get(room=2)) == 2
    assert used(queue) == 2


def test_slots_go_back_only_when_the_end_is_written(queue: Harness) -> None:
    """Told that a claim ended, they are still taken; given back, they are free, and it is told."""
    keeper = Keeper(queue, concurrency=1)
    queue.enqueue()
    [claim] = keeper.get()
    assert keeper.holds(key(claim))

    keeper.ended(key(claim))
    between = (keeper.ending, used(queue))
    keeper.give_back()

    assert between == (1, 1)
    assert (keeper.ending, used(queue), keeper.freed) == (0, 0, 1)


def test_end_told_twice_gives_back_once(queue: Harness) -> None:
    """A second word on the same claim is void, also when the slot is another claim's by then."""
    keeper = Keeper(queue, concurrency=1)
    first, second = queue.enqueue(), queue.enqueue()
    [claim] = keeper.get()
    keeper.ended(key(claim))
    keeper.give_back()
    queue.complete(claim)
    [other] = keeper.get()
    assert [claim.id, other.id] == [first.id, second.id]

    keeper.ended(key(claim))
    keeper.give_back()

    assert used(queue) == 1


def test_failed_release_is_tried_again(queue: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that breaks meanwhile does not leave a slot taken for good."""
    keeper = Keeper(queue, concurrency=1)
    queue.enqueue()
    [claim] = keeper.get()
    keeper.ended(key(claim))
    with monkeypatch.context() as broken:
        broken.setattr(queue.driver.slots, "release", lambda slots: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            keeper.give_back()
    assert keeper.ending == 1

    keeper.give_back()

    assert used(queue) == 0


def test_slot_of_a_body_that_outlived_its_end_is_kept(queue: Harness) -> None:
    """It may still act, so nobody takes its place while this process lives."""
    keeper = Keeper(queue, concurrency=1)
    queue.enqueue()
    [claim] = keeper.get()

    keeper.keep(key(claim))
    keeper.ended(key(claim))
    keeper.give_back()
    keeper.release_unknown(keeper.worker)

    assert used(queue) == 1


def test_slots_of_an_unanswered_claim_are_given_back(
    queue: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was taken by a claim whose answer was lost is nobody's here; what is known stays."""
    keeper = Keeper(queue, concurrency=2)
    queue.enqueue()
    queue.enqueue()
    known = keeper.get(room=1)
    claim = queue.driver.slots.claim

    def lose_the_answer(worker: UUID, needs: Any) -> Any:
        claim(worker, needs)
        raise ConnectionError

    with monkeypatch.context() as broken:
        broken.setattr(queue.driver.slots, "claim", lose_the_answer)
        with pytest.raises(ConnectionError):
            keeper.get()
    assert used(queue) == 2

    keeper.release_unknown(keeper.worker)

    assert used(queue) == 1
    assert keeper.holds(key(known[0]))


def test_look_that_found_less_rests_until_something_is_freed(queue: Harness) -> None:
    """A full limit is not asked about all the time, and a slot that comes free is used at once."""
    keeper = Keeper(queue, concurrency=1)
    queue.enqueue()
    queue.enqueue()
    [claim] = keeper.get()
    assert keeper.rest > 0
    keeper.ended(key(claim))
    keeper.give_back()

    assert keeper.rest <= 0
    assert keeper.has_freed
    keeper.get()
    assert not keeper.has_freed
    keeper.time += 60
    assert keeper.rest <= 0


def test_floor_leaves_lower_priorities_alone(queue: Harness) -> None:
    """Unlimited jobs of a higher priority come first."""
    keeper = Keeper(queue, concurrency=5)
    queue.enqueue(priority=1)
    high = queue.enqueue(priority=5)

    assert [one.id for one in keeper.get(floor=5)] == [high.id]
    assert len(keeper.get()) == 1


def test_tenants_take_turns_at_a_single_slot(queue: Harness) -> None:
    """A tenant with a long line gets every second slot and no more."""
    keeper = Keeper(queue, concurrency=1)
    for _ in range(4):
        queue.enqueue(tenant="a")
    queue.advance(1000)
    for _ in range(2):
        queue.enqueue(tenant="b")
    served = []
    for _ in range(6):
        [claim] = keeper.get()
        served.append(claim.tenant)
        queue.complete(claim)
        keeper.ended(key(claim))
        keeper.give_back()

    assert served == ["a", "b", "a", "b", "a", "a"]


def test_jobs_behind_many_that_do_not_fit_are_found(queue: Harness) -> None:
    """A longer look follows where the front of the line is blocked."""
    keeper = Keeper(queue, limits=[Limiter(per_key=1, key="{n}")])
    for _ in range(300):
        queue.enqueue(payload='{"n": 1}')
    other = queue.enqueue(payload='{"n": 2}')

    assert other.id in [one.id for one in keeper.get()]


def test_keeper_without_limits_asks_nothing() -> None:
    """No driver is needed for nothing."""
    keeper = SlotKeeper(object())  # type: ignore[arg-type]

    keeper.give_back()

    assert not keeper.limits
    assert keeper.ending == 0
