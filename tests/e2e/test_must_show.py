"""What the worker must show: kills, stops and freezes of real processes, recounted by SQL."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.app.jobs import (
    gated,
    gated_failure,
    gated_once,
    measured,
    note,
    once,
    swallows,
    work,
)
from tests.e2e.conftest import StartWorker
from tests.e2e.fleet import LIVING, Fleet, sampled_slots
from tests.e2e.processes import Database, eventually, fact, manage
from ultimate_jobs import ANY_TENANT, cancel

LIMIT = 5
LAST_FEW = 50
BODY_SECONDS = 0.2
# Longer, so that a machine that is busy for a moment does not decide what is measured.
MEASURED_SECONDS = 0.4
LATE_ACKS = {"ACK_INTERVAL": 60}
FORMS = ("except BaseException: pass", "finally: return")

# Counts each completion where it is written, whoever writes it.
COUNT_COMPLETIONS = """
    create table counted_completion (job_id uuid not null);
    create function count_completion() returns trigger language plpgsql as $$
        begin insert into counted_completion values (new.id); return null; end $$;
    create trigger count_completion after update on x_jobs for each row
        when (old.state <> 'completed' and new.state = 'completed')
        execute function count_completion();"""
COUNT_NO_MORE = """
    drop trigger count_completion on x_jobs;
    drop function count_completion();
    drop table counted_completion;"""
# Asked all the time: by the index of the live ones, so that asking takes no time from the workers.
UNFINISHED = (
    "select count(*) from x_jobs where state in ('ready', 'delayed', 'running', 'suspended')"
)
# At each start of a body, how many were between start and end; the killed ended when they died.
MOST_AT_ONCE = """
    with body as materialized (
        select e.started_at as began, coalesce(e.finished_at, death.at) as ended
        from testapp_effect e
        left join unnest(%s::int[], %s::timestamptz[]) death (pid, at) on death.pid = e.pid
        where e.label like 'limited%%')
    select max((
        select count(*) from body other
        where other.began <= this.began and other.ended > this.began)),
        count(*) filter (where ended is null)
    from body this"""
USED = """
    select extract(epoch from sum(least(finished_at, until) - started_at))
        / (%s * extract(epoch from until - since)), extract(epoch from until - since)
    from testapp_effect,
        (select min(started_at) as since, max(started_at) as until
            from testapp_effect where label like 'limited use%%') as span
    where label like 'limited use%%'
    group by since, until"""


@pytest.fixture
def completions(database: Database) -> Iterator[None]:
    """Count completions as the database sees them."""
    database.rows(COUNT_COMPLETIONS)
    yield
    database.rows(COUNT_NO_MORE)


def enqueue(plain: int, atomic: int, limited: int) -> None:
    """The limited ones first: they are held up by their limit, not by the others."""
    measured.enqueue_many(
        [{"label": f"limited {n:05}", "seconds": BODY_SECONDS} for n in range(limited)]
    )
    note.enqueue_many([{"label": f"plain {n:05}"} for n in range(plain)])
    once.enqueue_many([{"label": f"atomic {n:05}"} for n in range(atomic)])


def kill_until_done(database: Database, fleet: Fleet, *, within: float) -> list[tuple[str, ...]]:
    """One kill a second until every job is completed; return those that hit claims."""
    hits: list[Any] = []
    until = time.monotonic() + within
    eventually(lambda: database.count("completed") > 0, what="workers at work")
    next_kill = time.monotonic()
    while left := database.value(UNFINISHED):
        assert time.monotonic() < until, f"{left} jobs left"
        # Each loss puts a job off for longer: the last few would be killed on and on.
        if left > LAST_FEW and time.monotonic() > next_kill:
            what, running, begun = fleet.kill_one()
            print(f"kill {what}: {running} claims, {begun} of them begun; {left} jobs left")
            next_kill += 1
            if running:
                hits.append((what, running, begun))
        time.sleep(0.02)
    return hits


def held_share(samples: list[tuple[int, bool]]) -> float:
    """Return how much of the limit was held, by living or dead, while limited jobs were due."""
    counts = [count for count, is_waiting in samples if is_waiting]
    return sum(counts) / (LIMIT * len(counts))


@pytest.mark.parametrize(
    ("plain", "atomic", "limited", "afterwards"),
    [
        pytest.param(400, 200, 40, 0, id="short"),
        pytest.param(16_300, 3_400, 300, 150, id="20000", marks=pytest.mark.stress),
    ],
)
def test_random_worker_killed_every_second_loses_and_doubles_nothing(
    plain: int,
    atomic: int,
    limited: int,
    afterwards: int,
    database: Database,
    completions: None,
    start_worker: StartWorker,
) -> None:
    """Each job completes once, each atomic effect stands once, and a limit is kept and used.

    Under kills a slot of the dead counts as used until its lease has ended; what bodies make of
    the limit is measured afterwards, when nobody dies.
    """
    enqueue(plain, atomic, limited)
    fleet = Fleet(database, start_worker, seed=plain)
    try:
        with sampled_slots(database.url, "tests.measured") as samples:
            hits = kill_until_done(database, fleet, within=240)
            held = held_share(samples)
            if afterwards:
                use_the_limit(database, afterwards)
        codes = fleet.stop()
    finally:
        fleet.end()

    total = plain + atomic + limited + afterwards
    lost = database.value("select sum(lost_leases) from x_jobs")
    again = {
        kind: database.effects(f"{kind}%") - count
        for kind, count in (("plain", plain), ("limited", limited + afterwards))
    }
    deaths = [list(fleet.died_at), list(fleet.died_at.values())]
    at_once, endless = database.rows(MOST_AT_ONCE, *deaths)[0]
    print(f"{len(fleet.died_at)} workers killed, {len(hits)} with claims in hand")
    print(f"{total} jobs: {database.count('completed')} completed, {lost} claims lost")
    print(f"bodies run again: {again}; atomic effects {database.effects('atomic%')} of {atomic}")
    print(f"valid slots at most {max(count for count, _ in samples)} in {len(samples)} samples")
    print(f"bodies at once at most {at_once} of {LIMIT}; held while work waited: {held:.1%}")
    assert len(hits) > 0
    assert fleet.leases_lost == 0
    assert codes == [0] * len(codes)
    assert database.rows("select state, count(*) from x_jobs group by state") == [
        ("completed", total)
    ]
    assert database.rows("select count(*), count(distinct job_id) from counted_completion") == [
        (total, total)
    ]
    assert database.value("select count(distinct job_id) from testapp_effect") == total
    assert database.effects("atomic%") == atomic
    assert sum(again.values()) <= lost
    assert database.value("select max(attempt) from x_jobs") == 1
    assert len(samples) > 50
    assert max(count for count, _ in samples) == LIMIT
    assert (at_once, endless) == (LIMIT, 0)
    if afterwards:
        # Less than what bodies are held to: there are moments at which everybody is starting.
        assert held >= 0.75
        used, seconds = database.rows(USED, LIMIT)[0]
        print(f"used by bodies where nobody dies: {used:.1%} of {LIMIT} over {seconds:.1f} s")
        assert used >= 0.9


def use_the_limit(database: Database, count: int) -> None:
    """Run limited jobs where nobody dies, once the slots of the dead are free."""
    slots = "select count(*) from x_job_leases where kind = 'slot' and expires_at > x_now()"
    eventually(lambda: database.value(slots) == 0, what="the end of the dead ones' leases")
    # Its children wait ever longer to be replaced, and a start takes the processor from the others.
    eventually(lambda: len(database.rows(LIVING)) == 4, within=60, what="all four workers")
    measured.enqueue_many(
        [{"label": f"limited use {n:05}", "seconds": MEASURED_SECONDS} for n in range(count)]
    )
    eventually(lambda: database.value(UNFINISHED) == 0, within=90, what="the limited jobs")


def test_terminate_under_load_ends_in_time_and_counts_nothing_that_did_not_run(
    database: Database, start_worker: StartWorker
) -> None:
    """One job outlasts the grace, others wait in hand: both come back, and only one had begun."""
    grace, count = 1.0, 600
    long = gated.enqueue(label="long", gate="gate")
    work.enqueue_many([{"label": f"load {n:05}", "seconds": 0.002} for n in range(count)])
    # A count of an earlier attempt, which a hand-back must leave as it was.
    database.rows("update x_jobs set attempt = 1 where name = 'tests.work'")
    worker = start_worker("--threads", "2", "--grace", str(grace))
    eventually(lambda: database.count("completed") > 150, what="a worker under load")

    began = time.monotonic()
    code = worker.stop()
    took = time.monotonic() - began
    back = "select id from x_jobs where name = 'tests.work' and state = 'ready' and token = 1"
    unstarted = [row[0] for row in database.rows(back)]
    seen = "select count(*) from testapp_effect where job_id = any(%s)"
    starts_before = database.value(seen, unstarted)
    attempts = "select name, state, attempt, lost_leases, count(*) from x_jobs group by 1, 2, 3, 4"
    left = sorted(database.rows(attempts))
    print(f"exit {code} after {took:.2f} s of {grace} s; {len(unstarted)} unstarted; {left}")

    done = database.count("completed")
    assert code == 1, worker.log
    assert grace <= took < grace + 5
    assert len(unstarted) > 0
    assert starts_before == 0
    assert left == [
        ("tests.gated", "ready", 0, 0, 1),
        ("tests.work", "completed", 2, 0, done),
        ("tests.work", "ready", 1, 0, count - done),
    ]
    assert database.effects("load%") == done
    assert database.value("select count(*) from x_job_leases") == 0

    database.open("gate")
    second = start_worker("--threads", "2")
    eventually(lambda: database.value(UNFINISHED) == 0, what="all done by the second")

    assert second.stop() == 0
    assert database.value(seen, unstarted) == len(unstarted)
    assert database.value(seen, [long.id]) == 2
    assert database.effects("load%") == count
    assert sorted(database.rows(attempts)) == [
        ("tests.gated", "completed", 1, 0, 1),
        ("tests.work", "completed", 2, 0, count),
    ]


def versions(database: Database) -> list[tuple[Any, ...]]:
    """Return every job row with its version: an untouched row keeps its xmin."""
    return database.rows("select xmin::text, ctid::text, * from x_jobs order by id")


def test_continue_past_lease_has_ack_nack_and_atomic_commit_refused(
    database: Database, start_worker: StartWorker
) -> None:
    """Each kind of late write finds another's claim, changes no row and is reported."""
    ids = {
        str(gated.enqueue(label="ack", gate="gate").id): "completed",
        str(gated_failure.enqueue(label="nack", gate="gate").id): "dead",
        str(gated_once.enqueue(label="commit", gate="gate").id): "completed",
    }
    stopped = start_worker("--threads", "3", settings=LATE_ACKS)
    old = stopped.wait_until_started()
    eventually(lambda: database.effects() == 2, what="two bodies that can be seen")
    inside = (
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and state = 'idle in transaction' and query ilike '%%testapp_%%'"
    )
    eventually(lambda: database.value(inside), what="an atomic body inside its transaction")
    stopped.freeze()

    second = start_worker("--threads", "3")
    other = second.wait_until_started()
    eventually(lambda: database.effects() == 4, what="the second worker's bodies")
    database.open("gate")
    eventually(lambda: database.count("running") == 0, what="the second worker finished")
    before = versions(database)
    stopped.thaw()
    eventually(lambda: len(stopped.log_lines("jobs.claim.lost")) == 3, what="three late writes")

    lost = stopped.log_lines("jobs.claim.lost")
    print(f"late writes refused: {sorted(line.partition(' jobs.claim.lost ')[2] for line in lost)}")
    assert versions(database) == before
    ended = database.rows("select id::text, state, worker::text, token, lost_leases from x_jobs")
    assert sorted(ended) == sorted((one, state, other, 2, 1) for one, state in ids.items())
    assert {fact(line, "job_id") for line in lost} == set(ids)
    assert {(fact(line, "worker"), fact(line, "token")) for line in lost} == {(old, "1")}
    assert database.rows("select pid from testapp_effect where label = 'commit'") == [(second.pid,)]
    assert database.rows("select type, count(*) from x_job_events group by type order by type") == [
        ("dead", 1),
        ("rescued", 3),
    ]
    assert second.stop() == 0
    assert stopped.stop() == 0


def test_swallowed_cancel_and_lost_lease_never_complete(
    database: Database, start_worker: StartWorker
) -> None:
    """Bodies that hide what stopped them, in both forms: cancelled, or another worker's."""
    cancelled = [swallows.enqueue(label=f"cancel {how}", how=how, gate="never") for how in FORMS]
    kept = [swallows.enqueue(label=f"lost {how}", how=how, gate="gate") for how in FORMS]
    first = start_worker("--threads", "4")
    eventually(lambda: database.effects() == 4, what="four bodies")
    for one in cancelled:
        cancel(one.id, tenant=ANY_TENANT)
    eventually(lambda: database.count("cancelled") == 2, what="two cancelled jobs")
    swallowed = database.effects("cancel % swallowed")

    first.freeze()
    second = start_worker("--threads", "4")
    other = second.wait_until_started()
    eventually(lambda: database.effects() == 8, what="the second worker's bodies")
    before = versions(database)
    first.thaw()
    eventually(lambda: database.effects("lost % swallowed") == 2, what="two late returns")
    assert first.stop() == 0
    untouched = versions(database) == before
    database.open("gate")
    eventually(lambda: database.count("completed") == 2, what="the second worker's ends")

    ended = database.rows(
        "select id, state, worker::text, token, attempt, result from x_jobs"
        " where state = 'completed'"
    )
    print(f"{swallowed} cancels and 2 lost leases swallowed; ended {[row[1:] for row in ended]}")
    assert swallowed == 2
    assert untouched
    assert sorted(ended) == sorted((o.id, "completed", other, 2, 1, second.pid) for o in kept)
    assert database.rows("select distinct result from x_jobs where state = 'cancelled'") == [
        (None,)
    ]
    assert second.stop() == 0


def test_unknown_name_stays_untouched_beside_a_busy_worker_and_is_counted(
    database: Database, start_worker: StartWorker
) -> None:
    """Ahead of all others in its queue, it costs nobody anything and `jobs stats` tells of it."""
    unknown = note.using(priority=100).enqueue(label="of the next release")
    database.rows("update x_jobs set name = 'tests.of_the_next_release'")
    version = "select xmin::text, ctid::text, * from x_jobs where id = %s"
    before = database.rows(version, unknown.id)
    note.enqueue_many([{"label": f"known {n:04}"} for n in range(300)])
    worker = start_worker("--threads", "4")
    eventually(lambda: database.count("completed") == 300, what="the others done")

    [stats] = json.loads(manage(database.url, "jobs", "stats", "--json"))["queues"]

    print(f"xmin {before[0][0]} kept; depth {stats['depth']}, unknown {stats['unknown']}")
    assert (stats["depth"], stats["running"], stats["unknown"]) == (1, 0, 1)
    assert worker.stop() == 0
    assert database.rows(version, unknown.id) == before
