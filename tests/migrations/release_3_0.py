"""What an app and a database of 3.0.0 look like."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.migrations.database import ScratchDatabase

STRAY_INDEX = "x_jobs_idempotency_live_idx"
OLD_INDEX = "x_jobs_name_idempotency_live_idx"
CLAIM_INDEX = "x_jobs_claim_idx"
NEW_INDEX = "x_jobs_name_tenant_idempotency_live_idx"
LIVE_SQL = "('ready', 'delayed', 'running', 'suspended')"

COLUMNS = (
    "id, run_id, name, queue, payload, idempotency_key, priority, attempt, max_attempts, state,"
    " run_at, created_at, updated_at, tenant_id, traceparent, enqueued_by, last_error, worker"
)

# Its conflict target spells its own index, as every release does.
ENQUEUE = f"""
insert into x_jobs
    (id, run_id, name, queue, payload, idempotency_key, max_attempts, state, tenant_id)
values (%(id)s, gen_random_uuid(), %(name)s, 'default', '{{"from": "3.0.0"}}', %(key)s, 3, 'ready',
    %(tenant)s)
on conflict (name, idempotency_key) where state in {LIVE_SQL} do nothing
returning id
"""

# Seven states, three names, three tenants, keys that repeat among the finished only.
FILL = """
insert into x_jobs (id, run_id, name, queue, payload, idempotency_key, attempt, max_attempts, state,
    run_at, created_at, updated_at, tenant_id, traceparent, enqueued_by, last_error, worker)
select gen_random_uuid(), gen_random_uuid(), 'job_' || n %% 3, 'queue_' || n %% 2,
    jsonb_build_object('n', n),
    case when kind.state in ('completed', 'dead', 'cancelled') then 'old_' || n %% 50
        else 'key_' || n end,
    n %% 4, 5, kind.state,
    case kind.state when 'delayed' then now() + interval '1 day'
        else now() - n * interval '1 min' end,
    now() - n * interval '2 min', now() - n * interval '1 min',
    (array[null, 'acme', 'globex'])[1 + n %% 3], '00-trace-' || n, 'web',
    case kind.state when 'dead' then 'ValueError: ' || n end,
    case when kind.state = 'running' then gen_random_uuid() end
from generate_series(1, %(count)s) as n
join (values (0, 'ready'), (1, 'delayed'), (2, 'running'), (3, 'suspended'), (4, 'completed'),
    (5, 'dead'), (6, 'cancelled')) as kind(number, state) on kind.number = n %% 7
"""


def fill(database: ScratchDatabase, count: int = 700) -> None:
    """Write live and finished rows of several tenants and names."""
    database.sql(FILL, {"count": count})
    database.sql("analyze x_jobs")


def add_stray_index(database: ScratchDatabase) -> None:
    """Bring back what some databases still hold: dedupe by the key alone."""
    database.sql(
        f"create unique index {STRAY_INDEX} on x_jobs (idempotency_key) where state in {LIVE_SQL}"
    )


def insert(database: ScratchDatabase, **columns: Any) -> UUID:
    """Insert one row with the columns of 3.0.0 and return its id."""
    row = {
        "name": "send",
        "queue": "default",
        "payload": "{}",
        "idempotency_key": "k",
        "state": "ready",
        **columns,
    }
    names = ", ".join(row)
    holes = ", ".join(["%s"] * len(row))
    identity: UUID = database.value(
        f"insert into x_jobs (id, run_id, {names})"
        f" values (gen_random_uuid(), gen_random_uuid(), {holes}) returning id",
        list(row.values()),
    )
    return identity


def rows(database: ScratchDatabase, *, where: str = "true") -> list[tuple[Any, ...]]:
    """Return the columns that 3.0.0 knew, in the order of the ids."""
    return database.sql(f"select {COLUMNS} from x_jobs where {where} order by id")


def places(database: ScratchDatabase, *, where: str = "true") -> list[tuple[Any, ...]]:
    """Return where each row lies and who wrote it last; a rewrite or an update changes both."""
    return database.sql(f"select id, ctid::text, xmin::text from x_jobs where {where} order by id")


def indexes(database: ScratchDatabase) -> dict[str, bool]:
    """Return the indexes of x_jobs, and whether each is valid."""
    return dict(
        database.sql(
            "select c.relname, i.indisvalid and i.indisready from pg_index i"
            " join pg_class c on c.oid = i.indexrelid where i.indrelid = 'x_jobs'::regclass"
        )
    )
