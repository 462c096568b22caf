"""One run of the bench: every phase in turn, and afterwards nothing of it is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from example_project.bench import ceiling
from example_project.bench.churn import churn_300k, held_snapshot
from example_project.bench.drains import drain_insert_1, drain_noop_1, drain_noop_2, small_rate
from example_project.bench.enqueues import enqueue_many, enqueue_one
from example_project.bench.growth import finished_5m, queues_200, ready_1m, tenants_1000
from example_project.bench.latency import start_p50
from example_project.bench.machine import describe_machine, load_average
from example_project.bench.options import Options
from example_project.bench.result import result_of
from example_project.bench.server import (
    one_bench_at_a_time,
    refuse_company,
    refuse_other_databases,
    renew_connection,
)
from example_project.bench.session import Session
from example_project.places.demo.database import migrate, reachable_database

PHASES: dict[str, Callable[[Session], object]] = {
    "enqueue_one": enqueue_one,
    "enqueue_many": enqueue_many,
    "drain_noop_1": drain_noop_1,
    "drain_noop_2": drain_noop_2,
    "drain_insert_1": drain_insert_1,
    "start_p50": start_p50,
    "ready_1m": ready_1m,
    "finished_5m": finished_5m,
    "tenants_1000": tenants_1000,
    "queues_200": queues_200,
    "churn_300k": churn_300k,
    "held_snapshot": held_snapshot,
    # The bill is made with the drain of no-op jobs.
    "cost": small_rate,
}


def measure(options: Options, say: Callable[[str], None]) -> dict[str, Any]:
    """Run the phases and return the figures.

    Raises:
        ArgumentInvalid: the database cannot be measured, or not alone.
        DatabaseUnavailable: nobody answers.
        BenchFailed: a phase did not come to its end.
    """
    refuse_other_databases()
    with reachable_database():
        migrate()
        with one_bench_at_a_time():
            if not options.is_forced:
                refuse_company()
            machine = describe_machine()
            with _left_clean(Session(options, say)) as session:
                for name in options.phases:
                    say(name)
                    PHASES[name](session)
                machine["load_average_after"] = load_average()
                return result_of(session, options, machine)


@contextmanager
def _left_clean(session: Session) -> Iterator[Session]:
    try:
        yield session
    except BaseException:
        renew_connection()
        raise
    finally:
        session.say("removing what the bench wrote")
        session.rows.remove()
        with ceiling.connect(session.conninfo) as connection:
            ceiling.drop_table(connection)
