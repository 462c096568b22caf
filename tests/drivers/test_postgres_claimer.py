"""A claimer goes on from where it left off, and what lands before that place is not left there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from tests.concurrency.conftest import register_worker
from tests.concurrency.requests import request
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.drivers.postgres.claims import PostgresClaimer
from ultimate_jobs.drivers.postgres.statements import Statements
from ultimate_jobs.types import Claim, Nack, OnConflict

EVERY = 10.0

pytestmark = pytest.mark.django_db


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Setting:
    """A claimer of one worker over a backlog, and which statements it sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.driver = PostgresDriver("default")
        self.worker = register_worker(self.driver)
        self.clock = Clock()
        self.sent: list[str] = []
        plain = Statements.rows

        def rows(run: Statements, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
            self.sent.append(name)
            return plain(run, name, **params)

        monkeypatch.setattr(Statements, "rows", rows)
        self.claimer = PostgresClaimer(
            Statements("default"),
            queues=None,
            names=("race",),
            survey_every=EVERY,
            clock=self.clock,
        )

    def fill(self, count: int, prefix: str = "k", **changes: Any) -> list[UUID]:
        asked = [request(f"{prefix}{n:04}", **changes) for n in range(count)]
        self.driver.enqueue(asked, on_conflict=OnConflict.EXISTING)
        return [one.id for one in asked]

    def claim(self, limit: int) -> list[UUID]:
        return [one.id for one in self.claims(limit)]

    def claims(self, limit: int) -> list[Claim]:
        return self.claimer.claim(self.worker, limit)


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> Setting:
    return Setting(monkeypatch)


def test_claims_in_a_row_look_at_everything_once(setting: Setting) -> None:
    """Between two surveys a claim is one statement."""
    ids = setting.fill(30)

    taken = [job_id for _ in range(3) for job_id in setting.claim(10)]

    assert taken == ids
    assert [name for name in setting.sent if name.startswith("claims.")] == [
        "claims.heads",
        *["claims.claim_line"] * 3,
    ]


def test_claim_after_the_interval_looks_at_everything_anew(setting: Setting) -> None:
    """However well it goes on, it does not trust its memory for longer than it was told to."""
    setting.fill(30)
    setting.claim(10)
    setting.clock.now += EVERY
    setting.sent.clear()

    setting.claim(10)

    assert setting.sent == ["claims.heads", "claims.claim_line"]


def _late_commit(setting: Setting) -> UUID:
    """A row whose transaction was open so long that others have gone ahead of it."""
    [late] = setting.fill(1, "late")
    _move(late, "due_at = x_now() - interval '1 hour', run_at = x_now() - interval '1 hour'")
    return late


def _given_back(setting: Setting) -> UUID:
    """A job that an earlier claim of another worker took, and that comes back uncounted."""
    other = register_worker(setting.driver)
    [early] = setting.fill(1, "early")
    _move(early, "due_at = x_now() - interval '1 hour', run_at = x_now() - interval '1 hour'")
    claimer = setting.driver.claimer(queues=None, names=("race",))
    [claim] = claimer.claim(other, 1)
    setting.claim(1)
    setting.driver.nack(other, [Nack(claim.id, claim.token, counts_as_attempt=False)])
    return claim.id


def _higher_priority(setting: Setting) -> UUID:
    [urgent] = setting.fill(1, "urgent", priority=7)
    return urgent


def _another_tenant(setting: Setting) -> UUID:
    [other] = setting.fill(1, "other", tenant="acme")
    return other


def _another_queue(setting: Setting) -> UUID:
    [other] = setting.fill(1, "other", queue="elsewhere")
    return other


def _delayed_and_due(setting: Setting) -> UUID:
    [later] = setting.fill(1, "later", delay_ms=60_000)
    _move(later, "due_at = x_now(), run_at = x_now()")
    return later


def _move(job_id: UUID, changes: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"update x_jobs set {changes} where id = %s", [job_id])


@pytest.mark.parametrize(
    "land",
    [
        _late_commit,
        _given_back,
        _higher_priority,
        _another_tenant,
        _another_queue,
        _delayed_and_due,
    ],
    ids=lambda land: land.__name__.strip("_"),
)
def test_what_lands_before_the_place_is_claimed_within_one_interval(
    setting: Setting, land: Callable[[Setting], UUID]
) -> None:
    """A late commit, a job given back, a new priority, tenant, queue or wake: none stays unseen."""
    setting.fill(40)
    setting.claim(10)

    landed = land(setting)
    setting.clock.now += EVERY
    taken = setting.claim(60)

    assert landed in taken


@pytest.mark.parametrize("land", [_late_commit, _another_queue], ids=lambda one: one.__name__[1:])
def test_claim_that_is_not_filled_looks_at_everything_before_it_gives_up(
    setting: Setting, land: Callable[[Setting], UUID]
) -> None:
    """With threads to spare, a job that it does not know of need not wait for the interval."""
    setting.fill(10)
    setting.claim(10)
    landed = land(setting)
    setting.clock.now += 1.0

    assert setting.claim(10) == [landed]


def test_empty_queue_is_not_surveyed_again_at_once(setting: Setting) -> None:
    """Words that come thick and fast do not make it read every dead entry each time."""
    setting.fill(10)
    setting.claim(20)
    setting.sent.clear()

    assert [setting.claim(10) for _ in range(3)] == [[], [], []]
    assert "claims.heads" not in setting.sent


def test_job_that_comes_to_a_queue_known_to_be_empty_is_claimed_without_a_survey(
    setting: Setting,
) -> None:
    """The usual wake-up of an idle worker costs one statement."""
    setting.fill(10)
    setting.claim(10)
    setting.sent.clear()

    fresh = setting.fill(1, "fresh")
    setting.sent.clear()

    assert setting.claim(1) == fresh
    assert setting.sent == ["claims.claim_line"]


def test_claims_do_not_read_again_what_was_claimed_before(setting: Setting) -> None:
    """While an old snapshot is held, no dead entry goes away: the tenth claim reads as the second.

    Here the transaction of the test itself keeps the dead entries alive.
    """
    setting.fill(1500)
    pages = []
    for _ in range(12):
        before = _pages_read()
        assert len(setting.claim(100)) == 100
        pages.append(_pages_read() - before)

    assert pages[10] < 2 * pages[1]


def test_job_of_a_paused_queue_is_not_claimed_from_memory(setting: Setting) -> None:
    """A pause takes effect at once, not at the next survey."""
    setting.fill(20)
    setting.claim(10)
    with connection.cursor() as cursor:
        cursor.execute(
            "insert into x_job_queues (name, paused_at, updated_at)"
            " values ('default', x_now(), x_now())"
        )

    assert setting.claim(10) == []


def _pages_read() -> int:
    """Return how many pages of the table's indexes and heap this backend has asked for so far."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select pg_stat_get_xact_blocks_fetched('x_jobs'::regclass)"
            " + pg_stat_get_xact_blocks_fetched('x_jobs_ready_idx'::regclass)"
        )
        return int(cursor.fetchone()[0])
