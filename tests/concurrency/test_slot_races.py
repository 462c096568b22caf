"""Two sessions at one slot, ordered by hand: who comes second waits, looks again, and counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.concurrency.conftest import register_worker
from tests.concurrency.sessions import Session, fetch, sessions, wait_until_blocked
from tests.contract.factories import EnqueueRequestFactory
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.ids import new_id
from ultimate_jobs.limits import Scope
from ultimate_jobs.services import operators
from ultimate_jobs.slots import Held, Slot, SlotNeed
from ultimate_jobs.types import OnConflict

pytestmark = pytest.mark.django_db(transaction=True)

ONE = Scope("limiter:race", 1)
VALID = "select count(*) from x_job_leases where kind = 'slot' and expires_at > x_now()"


def need(*scopes: Scope) -> SlotNeed:
    return SlotNeed(new_id(), scopes or (ONE,))


def take(driver: PostgresDriver, worker: UUID, *needs: SlotNeed) -> Held:
    return driver.slots.take(worker, needs or (need(),))


def valid() -> int:
    return int(fetch(VALID)[0][0])


@contextmanager
def clock_of(session: Session, offset: str) -> Iterator[None]:
    """Let one session's statements run at another time."""
    session.sql("select set_config('ultimate_jobs.clock_offset', %s, false)", (offset,))
    yield
    session.sql("select set_config('ultimate_jobs.clock_offset', '', false)")


def test_two_takers_of_the_last_slot_one_gets_it(
    pair: tuple[Session, Session], driver: PostgresDriver
) -> None:
    """The second waits for the first's commit and then has nothing."""
    first, second = pair
    workers = register_worker(driver), register_worker(driver)
    first.begin()
    mine = first.run(lambda: take(driver, workers[0]))

    waiting = second.start(lambda: take(driver, workers[1]))
    wait_until_blocked(second)
    first.commit()

    assert len(mine) == 1
    assert waiting.result(timeout=20) == {}
    assert valid() == 1


def test_two_takers_of_the_last_slot_the_second_has_it_after_a_rollback(
    pair: tuple[Session, Session], driver: PostgresDriver
) -> None:
    """A taking that never was leaves the slot to who waited for it."""
    first, second = pair
    workers = register_worker(driver), register_worker(driver)
    first.begin()
    first.run(lambda: take(driver, workers[0]))

    waiting = second.start(lambda: take(driver, workers[1]))
    wait_until_blocked(second)
    first.rollback()

    assert len(waiting.result(timeout=20)) == 1
    assert valid() == 1


def test_takers_of_two_slots_in_opposite_order_do_not_deadlock(
    pair: tuple[Session, Session], driver: PostgresDriver
) -> None:
    """Each statement takes its slots in one order, whatever the order they were asked in."""
    first, second = pair
    workers = register_worker(driver), register_worker(driver)
    a, b = Scope("limiter:a", 1), Scope("limiter:b", 1)
    first.begin()
    first.run(lambda: take(driver, workers[0], need(b, a)))

    waiting = second.start(lambda: take(driver, workers[1], need(a, b)))
    wait_until_blocked(second)
    first.commit()

    assert waiting.result(timeout=20) == {}
    assert valid() == 2


def test_taker_of_an_expired_slot_waits_for_a_renewal_and_has_nothing(
    pair: tuple[Session, Session], driver: PostgresDriver
) -> None:
    """A holder that renewed in time keeps its slot, though the taker's look came before."""
    holder, taker = pair
    workers = register_worker(driver), register_worker(driver)
    take(driver, workers[0])
    soon = f"{driver.lease_ttl_ms - 1000} ms"
    with clock_of(holder, soon):
        holder.begin()
        assert holder.run(lambda: driver.heartbeat(workers[0]).alive)

        with clock_of(taker, f"{driver.lease_ttl_ms + 1000} ms"):
            waiting = taker.start(lambda: take(driver, workers[1]))
            wait_until_blocked(taker)
            holder.commit()

            assert waiting.result(timeout=20) == {}


def test_renewal_passes_by_a_slot_that_a_taker_has_locked(
    pair: tuple[Session, Session], driver: PostgresDriver
) -> None:
    """A taker that stands still holds up no heartbeat; the slot it took is lost to its holder."""
    taker, holder = pair
    workers = register_worker(driver), register_worker(driver)
    take(driver, workers[0])
    fetch("update x_job_leases set expires_at = x_now() + interval '1 min' where kind = 'worker'")
    with clock_of(taker, f"{driver.lease_ttl_ms + 1000} ms"):
        taker.begin()
        assert len(taker.run(lambda: take(driver, workers[1]))) == 1

        assert holder.run(lambda: driver.heartbeat(workers[0]).alive)
        taker.commit()

    rows = fetch("select holder from x_job_leases where kind = 'slot'")
    assert rows == [(workers[1],)]


def test_release_by_the_late_holder_waits_and_frees_nothing(
    pair: tuple[Session, Session], driver: PostgresDriver
) -> None:
    """The slot is another's by the time the release has its turn."""
    taker, late = pair
    workers = register_worker(driver), register_worker(driver)
    [slots] = take(driver, workers[0]).values()
    with clock_of(taker, f"{driver.lease_ttl_ms + 1000} ms"):
        taker.begin()
        taker.run(lambda: take(driver, workers[1]))
        waiting = late.start(lambda: driver.slots.release(slots))
        wait_until_blocked(late)
        taker.commit()
        waiting.result(timeout=20)

    assert valid() == 1


def test_two_claims_of_one_job_give_it_once_and_one_slot(
    pair: tuple[Session, Session], driver: PostgresDriver
) -> None:
    """The second finds the row locked, takes no slot for it and waits for nobody."""
    first, second = pair
    workers = register_worker(driver), register_worker(driver)
    roomy = Scope("limiter:roomy", 5)
    [job] = driver.enqueue([EnqueueRequestFactory(name="race")], on_conflict=OnConflict.EXISTING)
    asked = [SlotNeed(job.id, (roomy,))]
    first.begin()
    got = first.run(lambda: driver.slots.claim(workers[0], asked))

    other = second.run(lambda: driver.slots.claim(workers[1], asked))
    first.commit()

    assert ([one.id for one in got.claims], other.claims) == ([job.id], [])
    assert valid() == 1


def test_two_claims_at_the_last_slot_start_one_job(
    pair: tuple[Session, Session], driver: PostgresDriver
) -> None:
    """Two workers with two jobs and one slot: one starts, and the other job is as it was."""
    first, second = pair
    workers = register_worker(driver), register_worker(driver)
    requests = EnqueueRequestFactory.build_batch(2, name="race")
    jobs = [one.id for one in driver.enqueue(requests, on_conflict=OnConflict.EXISTING)]
    first.begin()
    got = first.run(lambda: driver.slots.claim(workers[0], [SlotNeed(jobs[0], (ONE,))]))

    waiting = second.start(lambda: driver.slots.claim(workers[1], [SlotNeed(jobs[1], (ONE,))]))
    wait_until_blocked(second)
    first.commit()

    assert len(got.claims) == 1
    assert waiting.result(timeout=20).claims == []
    assert fetch("select state, token, attempt from x_jobs where id = %s", (jobs[1],)) == [
        ("ready", 0, 0)
    ]


def test_job_that_came_earlier_and_committed_later_does_not_run_beside(
    pair: tuple[Session, Session], driver: PostgresDriver
) -> None:
    """A lane's order is by what is committed; its slot keeps two from running at once anyway."""
    enqueuer, _ = pair
    worker = register_worker(driver)
    lane = Scope("serial::a", 1)
    early = EnqueueRequestFactory(name="race", serial_key=":a")
    enqueuer.begin()
    enqueuer.run(lambda: driver.enqueue([early], on_conflict=OnConflict.EXISTING))
    late = EnqueueRequestFactory(name="race", serial_key=":a")
    driver.enqueue([late], on_conflict=OnConflict.EXISTING)
    running = driver.slots.claim(worker, [SlotNeed(late.id, (lane,))])
    enqueuer.commit()

    beside = driver.slots.claim(worker, [SlotNeed(early.id, (lane,))])

    assert len(running.claims) == 1
    assert beside.claims == []


def test_show_of_a_locked_job_says_so_and_waits_for_nobody(
    pair: tuple[Session, Session], driver: PostgresDriver
) -> None:
    """A dedupe of an open transaction holds the row: claims pass it by, and the reason is told."""
    enqueuer, _ = pair
    register_worker(driver)
    request = EnqueueRequestFactory(name="race")
    driver.enqueue([request], on_conflict=OnConflict.EXISTING)
    enqueuer.begin()
    again = EnqueueRequestFactory(name="race", key=request.key)
    enqueuer.run(lambda: driver.enqueue([again], on_conflict=OnConflict.EXISTING))

    why = operators.trace(driver, str(request.id)).why
    enqueuer.commit()

    assert why.endswith("and is locked by an open transaction, whose end it waits for.")
    assert "waits for its turn" in operators.trace(driver, str(request.id)).why


@pytest.mark.stress
def test_many_takers_never_hold_more_than_the_limit(driver: PostgresDriver) -> None:
    """Eight workers take and give back at once; each looks at the count while it holds."""
    limit, rounds = 3, 60
    scope = Scope("limiter:crowd", limit)
    over: list[int] = []
    got: list[int] = []

    def work(session: Session) -> None:
        worker = uuid4()
        for _ in range(rounds):
            held = driver.slots.take(worker, [need(scope), need(scope)])
            slots: list[Slot] = [slot for one in held.values() for slot in one]
            count: Any = session.fetch(VALID)[0][0]
            if count > limit:
                over.append(count)
            got.append(len(slots))
            driver.slots.release(slots)

    with sessions(8) as opened:
        turns = [session.start(lambda session=session: work(session)) for session in opened]
        for turn in turns:
            turn.result(timeout=120)

    assert over == []
    assert sum(got) > rounds
    assert valid() == 0
