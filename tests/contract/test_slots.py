"""Slots of limits: exact, all or nothing, renewed with the worker, and given back once."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from ultimate_jobs.ids import new_id
from ultimate_jobs.limits import Scope
from ultimate_jobs.slots import Held, LimitedClaims, Peek, SlotNeed
from ultimate_jobs.states import JobState
from ultimate_jobs.types import Claim, ClaimRequest, OnConflict

from .harness import MINUTE_MS, Harness

FOR_A_MINUTE = MINUTE_MS


def scope(
    driver: Harness, most: int = 1, *, what: str = "a", period_ms: int | None = None
) -> Scope:
    kind = "rate" if period_ms else "limiter"
    return Scope(f"{kind}:{driver.queue}:{what}", most, period_ms)


def take(driver: Harness, *needs: tuple[Scope, ...], worker: UUID | None = None) -> Held:
    asked = [SlotNeed(new_id(), scopes) for scopes in needs]
    return driver.driver.slots.take(worker or driver.start_worker(), asked)


def claim(driver: Harness, worker: UUID, *needs: SlotNeed) -> LimitedClaims:
    return driver.driver.slots.claim(worker, needs)


def used(driver: Harness, one: Scope) -> int:
    return driver.driver.slots.used([one.name]).get(one.name, 0)


def peek(driver: Harness, **fields: Any) -> list[UUID]:
    seen = driver.driver.slots.peek(
        Peek(**{"limit": 100, "names": (driver.name,), "queues": (driver.queue,), **fields})
    )
    return [one.id for one in seen.candidates]


def test_take_gives_no_more_than_the_limit(driver: Harness) -> None:
    """Of five that ask at once, as many get a slot as there are."""
    one = scope(driver, 3)

    held = take(driver, *[(one,)] * 5)

    assert len(held) == 3
    assert sorted(slot.number for slots in held.values() for slot in slots) == [0, 1, 2]
    assert used(driver, one) == 3
    assert take(driver, (one,)) == {}


def test_take_is_all_or_nothing_for_a_job(driver: Harness) -> None:
    """A job that misses one of its slots keeps none of them."""
    free, full = scope(driver, 1, what="free"), scope(driver, 1, what="full")
    take(driver, (full,))

    assert take(driver, (free, full)) == {}

    assert used(driver, free) == 0
    assert len(take(driver, (free,))) == 1


def test_release_frees_the_slot_at_once(driver: Harness) -> None:
    """The next that asks has it."""
    one = scope(driver)
    [slots] = take(driver, (one,)).values()

    driver.driver.slots.release(slots)

    assert used(driver, one) == 0
    assert len(take(driver, (one,))) == 1


def test_release_twice_does_not_free_the_next_holders_slot(driver: Harness) -> None:
    """A second release of one taking is void, also where the same worker took the slot again."""
    one, worker = scope(driver), driver.start_worker()
    [slots] = take(driver, (one,), worker=worker).values()
    driver.driver.slots.release(slots)
    take(driver, (one,), worker=worker)

    driver.driver.slots.release(slots)

    assert used(driver, one) == 1


def test_slot_of_a_silent_worker_is_free_after_one_ttl(driver: Harness) -> None:
    """A dead holder costs its slots for one TTL and no longer."""
    one = scope(driver)
    take(driver, (one,))

    driver.advance(driver.lease_ttl_ms - 1000)
    assert take(driver, (one,)) == {}
    driver.advance(2000)

    assert used(driver, one) == 0
    assert len(take(driver, (one,))) == 1


def test_heartbeat_renews_the_slots_of_its_worker(driver: Harness) -> None:
    """One heartbeat keeps everything that a worker holds."""
    one, worker = scope(driver), driver.start_worker()
    take(driver, (one,), worker=worker)

    for _ in range(3):
        driver.advance(driver.lease_ttl_ms // 2)
        assert driver.driver.heartbeat(worker).alive

    assert used(driver, one) == 1


def test_heartbeat_does_not_revive_a_slot_that_expired(driver: Harness) -> None:
    """It may be another's already."""
    one, worker = scope(driver), driver.start_worker()
    take(driver, (one,), worker=worker)
    driver.advance(driver.lease_ttl_ms + 1)

    driver.driver.heartbeat(worker)

    assert used(driver, one) == 0


def test_heartbeat_of_an_expired_worker_renews_none_of_its_slots(driver: Harness) -> None:
    """A slot that was taken late ends in its time: its holder's jobs are another's by then."""
    one, worker = scope(driver), driver.start_worker()
    driver.advance(driver.lease_ttl_ms - 1000)
    take(driver, (one,), worker=worker)
    driver.advance(2000)
    assert not driver.driver.heartbeat(worker).alive
    driver.advance(driver.lease_ttl_ms - 1000)

    assert used(driver, one) == 0


def test_release_of_a_worker_frees_its_slots(driver: Harness) -> None:
    """A worker that leaves in order costs nobody a TTL."""
    one, worker = scope(driver), driver.start_worker()
    take(driver, (one,), worker=worker)

    driver.driver.leases.release(worker)

    assert used(driver, one) == 0


def test_slot_that_expired_under_a_late_holder_is_not_given_back_by_it(driver: Harness) -> None:
    """A holder that was stopped past its lease frees nothing of the one that came after."""
    one = scope(driver)
    [late] = take(driver, (one,)).values()
    driver.advance(driver.lease_ttl_ms + 1)
    take(driver, (one,))

    driver.driver.slots.release(late)

    assert used(driver, one) == 1


def test_lowered_limit_counts_the_slots_above_it(driver: Harness) -> None:
    """After a deploy that lowers a limit, nobody starts before enough of the old have ended."""
    before, now = scope(driver, 4), scope(driver, 2)
    held = list(take(driver, *[(before,)] * 4).values())
    held.sort(key=lambda slots: slots[0].number)

    driver.driver.slots.release([*held[0], *held[1]])
    assert take(driver, (now,)) == {}
    driver.driver.slots.release(held[2])

    assert len(take(driver, (now,), (now,))) == 1


def test_raised_limit_is_open_at_once(driver: Harness) -> None:
    """What a deploy adds is there for the next that asks."""
    take(driver, (scope(driver, 1),))

    assert len(take(driver, *[(scope(driver, 3),)] * 3)) == 2


def test_rate_lets_no_more_start_in_any_window(driver: Harness) -> None:
    """A start counts for the whole period, from its own moment on."""
    one = scope(driver, 2, period_ms=FOR_A_MINUTE)
    take(driver, (one,))
    driver.advance(FOR_A_MINUTE // 2)
    assert len(take(driver, (one,), (one,))) == 1

    driver.advance(FOR_A_MINUTE // 2 + 1)

    assert len(take(driver, (one,), (one,))) == 1


def test_rate_outlives_the_job_and_its_worker(driver: Harness) -> None:
    """A start that was made is made: neither an end nor a leaving worker takes it back."""
    one, worker = scope(driver, 1, period_ms=FOR_A_MINUTE), driver.start_worker()
    [slots] = take(driver, (one,), worker=worker).values()

    driver.driver.slots.release(slots)
    driver.driver.leases.release(worker)

    assert used(driver, one) == 1


def test_rate_is_not_renewed_by_a_heartbeat(driver: Harness) -> None:
    """A worker that lives on does not keep the rate used up."""
    one, worker = scope(driver, 1, period_ms=1000), driver.start_worker()
    take(driver, (one,), worker=worker)
    driver.advance(600)
    driver.driver.heartbeat(worker)
    driver.advance(600)

    assert used(driver, one) == 0


def test_rate_of_a_job_that_got_not_all_is_given_back(driver: Harness) -> None:
    """A start that did not happen does not count."""
    rate, full = scope(driver, 1, period_ms=FOR_A_MINUTE), scope(driver, what="full")
    take(driver, (full,))

    assert take(driver, (rate, full)) == {}

    assert used(driver, rate) == 0


def test_holders_names_the_jobs(driver: Harness) -> None:
    """Whoever waits can be told for whom."""
    one = scope(driver, 2)
    held = take(driver, (one,), (one,))

    holders = driver.driver.slots.holders([one.name])

    assert {holder.job for holder in holders} == set(held)


def test_rescue_forgets_slots_that_expired_long_ago(driver: Harness) -> None:
    """Names that come and go leave nothing behind."""
    one = scope(driver)
    take(driver, (one,))
    driver.advance(driver.lease_ttl_ms + 2 * MINUTE_MS)

    driver.rescue()

    assert used(driver, one) == 0
    assert len(take(driver, (one,))) == 1


def test_claim_takes_jobs_with_their_slots(driver: Harness) -> None:
    """What is claimed has all it needs; what does not fit stays as it was, untouched."""
    one, worker = scope(driver, 2), driver.start_worker()
    jobs = [driver.enqueue().id for _ in range(3)]

    got = claim(driver, worker, *[SlotNeed(job, (one,)) for job in jobs])

    assert [one.id for one in got.claims] == jobs[:2]
    assert {len(got.slots[job]) for job in jobs[:2]} == {1}
    left = driver.get(jobs[2])
    assert (left.state, left.attempt, left.token) == (JobState.READY, 0, 0)


def test_claim_of_a_job_that_another_has_leaves_its_slot_free(driver: Harness) -> None:
    """A job that is gone by then costs no slot."""
    one, worker = scope(driver), driver.start_worker()
    gone, there = driver.enqueue().id, driver.enqueue().id
    driver.claim_one()

    got = claim(driver, worker, SlotNeed(gone, (one,)), SlotNeed(there, (one,)))

    assert [one.id for one in got.claims] == [there]
    assert used(driver, one) == 1


def test_claim_that_misses_one_slot_keeps_no_other(driver: Harness) -> None:
    """What a job took in vain is free again when the claim has answered."""
    free, full, worker = scope(driver), scope(driver, what="full"), driver.start_worker()
    take(driver, (full,))
    job = driver.enqueue().id

    got = claim(driver, worker, SlotNeed(job, (free, full)))

    assert got.claims == []
    assert used(driver, free) == 0
    assert driver.get(job).state is JobState.READY


def test_claim_leaves_a_job_that_is_not_due(driver: Harness) -> None:
    """A look that is older than the job's new wait takes nothing."""
    one, worker = scope(driver), driver.start_worker()
    job = driver.job_in(JobState.DELAYED)

    assert claim(driver, worker, SlotNeed(job, (one,))).claims == []
    driver.advance(MINUTE_MS + 1)

    assert len(claim(driver, worker, SlotNeed(job, (one,))).claims) == 1


def test_claim_is_fenced_like_any_other(driver: Harness) -> None:
    """It counts an attempt and a token, and only they may write."""
    one, worker = scope(driver), driver.start_worker()
    job = driver.enqueue().id

    [got] = claim(driver, worker, SlotNeed(job, (one,))).claims

    assert (got.attempt, got.token, got.worker) == (1, 1, worker)
    driver.complete(got)
    assert driver.get(job).state is JobState.COMPLETED


def shed_all_but(
    driver: Harness, one: Scope, jobs: list[UUID]
) -> tuple[LimitedClaims, list[Claim]]:
    worker = driver.start_worker()
    request = ClaimRequest(worker, (driver.name,), limit=10, queues=(driver.queue,))
    return driver.driver.slots.claim_and_shed(
        worker,
        lambda: driver.driver.claim(request),
        lambda claims: [SlotNeed(claim.id, (one,)) for claim in claims if claim.id in jobs],
        delay_ms=MINUTE_MS,
    )


def test_shed_keeps_due_at_attempt_and_last_error(driver: Harness) -> None:
    """A job that is put back did not run: it is owed since before, and nothing is counted."""
    failed = driver.running()
    driver.fail(failed)
    before = driver.get(failed.id)
    one = scope(driver)

    got, shed = shed_all_but(driver, one, [])

    after = driver.get(failed.id)
    assert (got.claims, [claim.id for claim in shed]) == ([], [failed.id])
    assert (after.state, after.attempt) == (JobState.READY, before.attempt)
    assert (after.due_at, after.last_error) == (before.due_at, before.last_error)
    assert after.run_at > before.run_at


def test_shed_of_what_fits_not_keeps_the_rest(driver: Harness) -> None:
    """Of three, one has a slot and runs; the others wait."""
    jobs = [driver.enqueue().id for _ in range(3)]

    got, shed = shed_all_but(driver, scope(driver), jobs)

    assert [claim.id for claim in got.claims] == jobs[:1]
    assert sorted(claim.id for claim in shed) == sorted(jobs[1:])


def test_peek_shows_what_is_due_and_takes_nothing(driver: Harness) -> None:
    """A look changes no row."""
    due = driver.enqueue().id
    driver.enqueue(delay_ms=MINUTE_MS)
    driver.enqueue(name="contract.other")

    assert peek(driver) == [due]
    assert driver.get(due).state is JobState.READY


def test_peek_leaves_out_paused_and_shut_queues(driver: Harness) -> None:
    """What may not be claimed is not shown."""
    job = driver.enqueue().id

    assert peek(driver, queues=None, shut_queues=(driver.queue,)) == []
    driver.driver.queues.pause(driver.queue, by="ops")
    assert peek(driver) == []
    driver.driver.queues.resume(driver.queue)

    assert peek(driver) == [job]


def lane(driver: Harness, key: str | None = ":a", **fields: Any) -> UUID:
    return driver.enqueue(serial_key=key and f"{driver.queue}{key}", **fields).id


def heads(driver: Harness, **fields: Any) -> list[UUID]:
    return peek(driver, names=(), lane_names=(driver.name,), **fields)


def start(driver: Harness, job: UUID) -> list[Claim]:
    lane_scope = Scope(f"serial:{driver.queue}", 1)
    return claim(driver, driver.start_worker(), SlotNeed(job, (lane_scope,))).claims


def test_lane_shows_only_its_first_job(driver: Harness) -> None:
    """Jobs of one serial key start in the order they came."""
    first, second, other = lane(driver), lane(driver), lane(driver, ":b")

    assert heads(driver) == [first, other]
    assert start(driver, second) == []
    assert start(driver, first) != []


def test_lane_is_shut_while_its_first_runs_and_opens_when_it_ended(driver: Harness) -> None:
    """The next starts when the one before is done with."""
    first, second = lane(driver), lane(driver)
    [running] = start(driver, first)
    assert heads(driver) == []

    driver.complete(running)

    assert heads(driver) == [second]


def test_lane_waits_for_a_failed_job_in_backoff(driver: Harness) -> None:
    """Strictly first come first served: a job that will be tried again keeps its followers back."""
    first, second = lane(driver), lane(driver)
    [running] = start(driver, first)
    driver.fail(running, delay_ms=MINUTE_MS)
    assert (heads(driver), start(driver, second)) == ([], [])

    driver.advance(MINUTE_MS + 1)

    assert heads(driver) == [first]


def test_lane_passes_by_a_dead_and_a_cancelled_job(driver: Harness) -> None:
    """What has ended for good, however it ended, holds up nobody."""
    first, second, third = lane(driver), lane(driver), lane(driver)
    [running] = start(driver, first)
    driver.bury(running)
    assert heads(driver) == [second]

    driver.cancel(second)

    assert heads(driver) == [third]


def test_lane_passes_by_a_job_that_is_not_yet_due(driver: Harness) -> None:
    """A job of next week does not hold up today's; once due it comes first."""
    later, now = lane(driver, delay_ms=MINUTE_MS), lane(driver)
    assert heads(driver) == [now]

    driver.advance(MINUTE_MS + 1)

    assert heads(driver) == [later]


def test_lane_of_a_parked_job_stays_shut(driver: Harness) -> None:
    """A job that sleeps is not done with."""
    first, _ = lane(driver), lane(driver)
    [running] = start(driver, first)

    driver.park(running)

    assert heads(driver) == []


def test_lanes_are_looked_at_in_turns(driver: Harness) -> None:
    """More lanes than one look takes are reached by going on where the last one ended."""
    jobs = {lane(driver, f":{number:03}") for number in range(30)}
    seen: set[UUID] = set()
    after = ""
    for _ in range(30):
        look = driver.driver.slots.peek(
            Peek(limit=5, lane_names=(driver.name,), queues=(driver.queue,), after_lane=after)
        )
        seen |= {one.id for one in look.candidates}
        after = look.after_lane
        if seen == jobs:
            break

    assert seen == jobs


def test_job_without_a_lane_among_lanes_is_found_as_a_stray(driver: Harness) -> None:
    """What was enqueued before its declaration had a serial key is not forgotten."""
    stray = lane(driver, None)

    assert heads(driver) == []
    assert heads(driver, with_strays=True) == [stray]


def test_serial_key_is_stored_and_follows_into_a_rerun(driver: Harness) -> None:
    """The run that follows stands in the lane of its own request."""
    claimed = driver.running(key="again", serial_key="acme:a")
    driver.enqueue(key="again", serial_key="acme:b", on_conflict=OnConflict.RERUN)
    driver.complete(claimed)

    [follow] = driver.find(states=("ready",))

    assert driver.get(claimed.id).serial_key == "acme:a"
    assert follow.serial_key == "acme:b"


def test_slots_of_unknown_names_are_none(driver: Harness) -> None:
    """A name that nobody took counts nothing."""
    assert driver.driver.slots.used([f"limiter:{uuid4()}"]) == {}
    assert driver.driver.slots.used([]) == {}
