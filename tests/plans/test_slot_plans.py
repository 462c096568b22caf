"""Plans of limits: a look at limited jobs costs by what it finds, and a lane by its first job."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.db import connection

from tests.plans.test_plans import LIVE_WORKER, NAMES, Plans, busy
from ultimate_jobs.ids import new_id
from ultimate_jobs.limits import Scope
from ultimate_jobs.slots import Peek, SlotNeed

__all__ = ["busy"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("busy")]

LANE = 3_000
FILL_LANE = """
insert into x_jobs (id, run_id, name, queue, idempotency_key, payload, state, serial_key,
    created_at)
select gen_random_uuid(), gen_random_uuid(), 'plan.lane', 'lanes', 'lane' || n, '{}', 'ready',
    ':one', x_now() + n * interval '1 ms'
from generate_series(1, %s) n"""
RARE = """
insert into x_jobs (id, run_id, name, queue, idempotency_key, payload, state)
select gen_random_uuid(), gen_random_uuid(), 'plan.rare', 'q0', 'rare' || n, '{}', 'ready'
from generate_series(1, 10) n"""
HOLD = """
insert into x_job_leases (kind, name, slot, holder, expires_at)
select 'slot', 'plan.' || n %% 100, n / 100, %s, x_now() + interval '1 hour'
from generate_series(0, 1999) n"""


def fill(sql: str, *values: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)


def lane_ids() -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute("select id from x_jobs where serial_key = ':one' order by created_at")
        return [row[0] for row in cursor.fetchall()]


def test_look_at_a_rare_name_reads_by_the_keys_of_that_name() -> None:
    """Ten limited jobs among twenty thousand others are found without passing over those."""
    fill(RARE)

    plans = Plans(lambda driver: driver.slots.peek(Peek(limit=64, names=("plan.rare",))))

    assert len(plans.answer.candidates) == 10
    assert "x_jobs" not in plans.scanned_whole
    assert plans.pages < 200


def test_look_at_a_name_that_nothing_has_is_two_descents() -> None:
    """A worker whose limited jobs are rare pays next to nothing for them."""
    plans = Plans(lambda driver: driver.slots.peek(Peek(limit=64, names=("plan.none",))))

    assert plans.answer.candidates == []
    assert plans.pages < 30


def test_look_at_crowded_names_is_bounded_by_the_heads() -> None:
    """A backlog of limited jobs is read from the front of its lines and no further."""
    plans = Plans(lambda driver: driver.slots.peek(Peek(limit=64, names=NAMES, queues=("q0",))))

    assert len(plans.answer.candidates) >= 64
    assert "x_jobs" not in plans.scanned_whole


def test_look_at_a_lane_reads_its_first_job() -> None:
    """Three thousand jobs wait behind it, and are not touched."""
    fill(FILL_LANE, LANE)

    plans = Plans(lambda driver: driver.slots.peek(Peek(limit=64, lane_names=("plan.lane",))))

    assert [one.id for one in plans.answer.candidates] == lane_ids()[:1]
    assert plans.pages < 100
    assert plans.discarded < 50


def test_claim_of_a_lanes_first_and_last_reads_the_lanes_front() -> None:
    """Whether a job is the first is one descent; a job that is not, is told by the first."""
    fill(FILL_LANE, LANE)
    first, *_, last = lane_ids()
    one = Scope("serial::one", 1)

    for job, claimed in ((first, 1), (last, 0)):
        plans = Plans(
            lambda driver, job=job: driver.slots.claim(LIVE_WORKER, [SlotNeed(job, (one,))])
        )
        assert len(plans.answer.claims) == claimed
        assert "x_jobs" not in plans.scanned_whole
        assert plans.discarded < 50


def test_taking_reads_the_slots_of_its_own_names() -> None:
    """A hundred other limits in use cost nothing."""
    fill(HOLD, LIVE_WORKER)
    one = Scope("plan.7", 30)

    plans = Plans(lambda driver: driver.slots.take(LIVE_WORKER, [SlotNeed(new_id(), (one,))]))

    assert len(plans.answer) == 1
    assert plans.pages < 120
