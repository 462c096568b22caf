"""The index switch under traffic: forwards and backwards, never a moment without dedupe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.migrations import release_3_0
from tests.migrations.database import RELEASE_3_0, ScratchDatabase
from tests.migrations.release_3_0 import NEW_INDEX, OLD_INDEX, STRAY_INDEX
from tests.migrations.traffic import (
    App,
    Attempt,
    CurrentApp,
    IndexWatch,
    Outcome,
    live_twice,
    traffic,
)

ROUNDS = 12
PAIRS = {
    "3.0.0-and-current": (App, CurrentApp),
    "two-of-3.0.0": (App, App),
    "two-current": (CurrentApp, CurrentApp),
}
UPGRADES = [
    ("3.0.0-and-current", "clean"),
    ("3.0.0-and-current", "with-stray-index"),
    ("two-of-3.0.0", "with-stray-index"),
    ("two-current", "clean"),
]


def alike_and_apart(number: int) -> Sequence[str | None]:
    """Both tenantless, both of one tenant, or each of its own."""
    return ((None, None), ("acme", "acme"), ("acme", "globex"))[number % 3]


def alike(number: int) -> Sequence[str | None]:
    """Both tenantless, or both of one tenant: nothing that the older index could not hold."""
    return ((None, None), ("acme", "acme"))[number % 2]


@dataclass
class Upgrade:
    """What was seen while two apps enqueued and the database went from 3.0.0 to the last step."""

    by_step: dict[str, list[Attempt]]
    attempts: list[Attempt]
    doubled: list[tuple[Any, ...]]
    owners: dict[Any, tuple[Any, ...]]
    watch: IndexWatch


@pytest.fixture(scope="module", params=UPGRADES, ids="-".join)
def upgrade(
    request: pytest.FixtureRequest, scratch: ScratchDatabase, django_db_blocker: Any
) -> Upgrade:
    """One upgrade under traffic, seen by several tests."""
    apps, stray = request.param
    with django_db_blocker.unblock():
        scratch.reset()
        scratch.migrate(RELEASE_3_0)
        release_3_0.fill(scratch)
        if stray == "with-stray-index":
            release_3_0.add_stray_index(scratch)
        by_step = {}
        with traffic(scratch, *PAIRS[apps], tenants=alike_and_apart) as (running, watch):
            for step in scratch.steps[1:]:
                scratch.migrate(step)
                by_step[step] = running.wait_for_rounds(ROUNDS)
                watch.wait_for_a_sample()
        owned = scratch.sql("select id, name, tenant_id, idempotency_key from x_jobs")
        owners = {row[0]: row[1:] for row in owned}
        return Upgrade(by_step, running.attempts, live_twice(scratch), owners, watch)


def test_migrate_while_two_apps_enqueue_never_doubles_a_live_key(upgrade: Upgrade) -> None:
    """No key of a tenant was live twice at any moment, and enough were asked for at once."""
    assert upgrade.doubled == []
    assert len(upgrade.attempts) > ROUNDS * len(upgrade.by_step)


def test_migrate_while_two_apps_enqueue_keeps_a_valid_index_at_every_sample(
    upgrade: Upgrade,
) -> None:
    """The catalog shows the old index, then both, then the new one; never none."""
    seen = upgrade.watch.seen

    assert upgrade.watch.samples > len(upgrade.by_step)
    assert () not in seen
    assert OLD_INDEX in seen[0]
    assert NEW_INDEX not in seen[0]
    assert {OLD_INDEX, NEW_INDEX} <= set(seen[1])
    assert seen[-1] == (NEW_INDEX,)


def test_migrate_while_two_apps_enqueue_hands_nobody_anothers_job(upgrade: Upgrade) -> None:
    """Whatever index stands, the id that is answered is a job of the asking tenant."""
    answered = [attempt for attempt in upgrade.attempts if attempt.answered is not None]

    assert len(answered) > ROUNDS
    for attempt in answered:
        assert upgrade.owners[attempt.answered] == (attempt.name, attempt.tenant, attempt.key)


def test_migrate_while_two_apps_enqueue_refuses_only_the_release_that_does_not_fit(
    upgrade: Upgrade,
) -> None:
    """3.0.0 is served until 0011, this release from 0010, and at the end without any refusal."""
    for step, attempts in upgrade.by_step.items():
        old = {attempt.outcome for attempt in attempts if attempt.app == App.name}
        new = {attempt.outcome for attempt in attempts if attempt.app == CurrentApp.name}
        served = {Outcome.ACCEPTED, Outcome.DEDUPED}
        if step < "0010":
            assert not new & served
            assert not old or old & served
        elif step < "0011":
            assert not old or old & served
            assert not new or new & served
        else:
            assert not old & served
            assert new <= served


@pytest.mark.parametrize("apps", PAIRS.values(), ids=PAIRS)
def test_migrate_backwards_while_two_apps_enqueue_never_doubles_a_live_key(
    current: ScratchDatabase, apps: tuple[type[App], type[App]]
) -> None:
    """Backwards, too, the index of this release goes only after the older one is valid."""
    with traffic(current, *apps, tenants=alike) as (running, watch):
        for step in reversed(current.steps[:-1]):
            current.migrate(step)
            running.wait_for_rounds(ROUNDS)

    assert current.applied() == [RELEASE_3_0]
    assert live_twice(current) == []
    assert () not in watch.seen
    assert watch.seen[0] == (NEW_INDEX,)
    assert watch.seen[-1] == (OLD_INDEX,)


def test_migrate_twice_at_once_never_drops_the_last_index(shipped: ScratchDatabase) -> None:
    """A second migrate waits for the first's build instead of taking it for a leftover."""
    release_3_0.fill(shipped, 7000)
    shipped.migrate("0009_build_claim_indexes")

    with traffic(shipped, App, CurrentApp, tenants=alike) as (running, watch):
        running.wait_for_rounds(ROUNDS)
        both = [shipped.start_migrate(), shipped.start_migrate()]
        for migrate in both:
            migrate.result(timeout=20)

    assert live_twice(shipped) == []
    assert () not in watch.seen
    assert release_3_0.indexes(shipped)[NEW_INDEX]
    assert OLD_INDEX not in release_3_0.indexes(shipped)


def test_migrate_with_stray_index_drops_both_superseded_ones(shipped: ScratchDatabase) -> None:
    """What was older than 3.0.0 goes with what 3.0.0 had."""
    release_3_0.add_stray_index(shipped)

    shipped.migrate()

    found = release_3_0.indexes(shipped)
    assert found[NEW_INDEX]
    assert {STRAY_INDEX, OLD_INDEX, release_3_0.CLAIM_INDEX}.isdisjoint(found)
