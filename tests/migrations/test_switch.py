"""The index switch under traffic: forwards and backwards, never a moment without dedupe."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.migrations import release_3_0
from tests.migrations.database import RELEASE_3_0, ScratchDatabase
from tests.migrations.release_3_0 import NEW_INDEX, OLD_INDEX, STRAY_INDEX
from tests.migrations.traffic import App, Attempt, CurrentApp, Outcome, live_twice, traffic

ROUNDS = 12
PAIRS = {
    "3.0.0-and-current": (App, CurrentApp),
    "two-of-3.0.0": (App, App),
    "two-current": (CurrentApp, CurrentApp),
}


def alike_and_apart(number: int) -> Sequence[str | None]:
    """Both tenantless, both of one tenant, or each of its own."""
    return ((None, None), ("acme", "acme"), ("acme", "globex"))[number % 3]


def alike(number: int) -> Sequence[str | None]:
    """Both tenantless, or both of one tenant: nothing that the older index could not hold."""
    return ((None, None), ("acme", "acme"))[number % 2]


def accepted(attempts: Sequence[Attempt]) -> int:
    return sum(attempt.outcome is Outcome.ACCEPTED for attempt in attempts)


@pytest.mark.parametrize("apps", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("stray", [False, True], ids=["clean", "with-stray-index"])
def test_migrate_while_two_apps_enqueue_never_doubles_a_live_key(
    shipped: ScratchDatabase, apps: tuple[type[App], type[App]], stray: bool
) -> None:
    """From 3.0.0 to the last step one valid unique index stands at every moment."""
    release_3_0.fill(shipped)
    if stray:
        release_3_0.add_stray_index(shipped)

    with traffic(shipped, *apps, tenants=alike_and_apart) as (running, watch):
        for step in shipped.steps[1:]:
            shipped.migrate(step)
            running.wait_for_rounds(ROUNDS)

    assert live_twice(shipped) == []
    assert () not in watch.seen
    assert watch.samples > len(shipped.steps)
    assert {OLD_INDEX, NEW_INDEX} <= set(watch.seen[-2] if len(watch.seen) > 1 else ())
    assert watch.seen[-1] == (NEW_INDEX,)


def test_migrate_while_apps_of_both_releases_enqueue_keeps_one_of_them_writing(
    shipped: ScratchDatabase,
) -> None:
    """At no step are both apps refused, and at the last this release enqueues without error."""
    release_3_0.fill(shipped)

    with traffic(shipped, App, CurrentApp, tenants=alike_and_apart) as (running, _):
        by_step = {}
        for step in shipped.steps[1:]:
            shipped.migrate(step)
            by_step[step] = running.wait_for_rounds(ROUNDS)

    assert [step for step, attempts in by_step.items() if not accepted(attempts)] == []
    last = [a for a in by_step[shipped.steps[-1]] if a.app == CurrentApp.name]
    assert {attempt.outcome for attempt in last} <= {Outcome.ACCEPTED, Outcome.DEDUPED}


def test_migrate_while_two_tenants_use_one_key_hands_nobody_anothers_job(
    shipped: ScratchDatabase,
) -> None:
    """Whatever index stands, the id that this release answers is a job of the asking tenant."""
    with traffic(shipped, App, CurrentApp, tenants=alike_and_apart) as (running, _):
        for step in shipped.steps[1:]:
            shipped.migrate(step)
            running.wait_for_rounds(ROUNDS)

    owners = {
        row[0]: row[1:]
        for row in shipped.sql("select id, name, tenant_id, idempotency_key from x_jobs")
    }
    answered = [attempt for attempt in running.attempts if attempt.answered is not None]
    assert len(answered) > ROUNDS
    for attempt in answered:
        assert owners[attempt.answered] == (attempt.name, attempt.tenant, attempt.key)


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
