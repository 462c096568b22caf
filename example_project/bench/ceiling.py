"""The ceiling: what raw SQL does on one psycopg connection, each statement its own commit.

Fixed on purpose, so that ratios of different releases compare. It knows nothing of Django.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import psycopg

TABLE = "bench_ceiling"
BATCH = 500
CHUNK = 1_000
QUEUE = "bench"
NAME = "bench.noop"

# The columns of release 3.0.0, and three indexes.
CREATE = f"""
create table {TABLE} (
    id uuid primary key,
    run_id uuid not null,
    name text not null,
    queue text not null,
    tenant_id text,
    idempotency_key text not null,
    payload jsonb not null,
    state text not null,
    priority smallint not null default 0,
    attempt integer not null default 0,
    max_attempts integer not null default 1,
    worker uuid,
    lease_until timestamptz,
    run_at timestamptz not null default statement_timestamp(),
    created_at timestamptz not null default statement_timestamp(),
    updated_at timestamptz not null default statement_timestamp(),
    last_error text,
    enqueued_by text,
    traceparent text
) with (fillfactor = 70);
create unique index {TABLE}_live_idx on {TABLE} (name, (coalesce(tenant_id, '')), idempotency_key)
    where state in ('ready', 'delayed', 'running', 'suspended');
create index {TABLE}_claim_idx on {TABLE} (queue, priority desc, run_at, id)
    where state = 'ready'
"""

INSERT_ONE = f"""
insert into {TABLE} (id, run_id, name, queue, idempotency_key, payload, max_attempts, state)
values (%s, %s, %s, %s, %s, %s, %s, 'ready')
"""

INSERT_MANY = f"""
insert into {TABLE} (id, run_id, name, queue, idempotency_key, payload, max_attempts, state)
select r.id, r.run_id, %s, %s, r.key, r.payload::jsonb, %s, 'ready'
from unnest(%s::uuid[], %s::uuid[], %s::text[], %s::text[]) as r(id, run_id, key, payload)
on conflict (name, (coalesce(tenant_id, '')), idempotency_key)
    where state in ('ready', 'delayed', 'running', 'suspended')
    do nothing
"""

CLAIM = f"""
with candidate as materialized (
    select id from {TABLE}
    where state = 'ready' and queue = %s and run_at <= statement_timestamp()
    order by priority desc, run_at, id
    limit %s
    for no key update skip locked
)
update {TABLE} j
set state = 'running', attempt = j.attempt + 1, worker = %s,
    lease_until = statement_timestamp() + interval '30 s', updated_at = statement_timestamp()
where j.id = any(array(select id from candidate))
returning j.id, j.name, j.payload::text, j.attempt
"""

COMPLETE = f"""
update {TABLE} set state = 'completed', updated_at = statement_timestamp()
where id = any(%s) and state = 'running'
"""

INSERT_EFFECT = "insert into bench_insertion (job_id, at) values (%s, statement_timestamp())"

Row = tuple[UUID, UUID, str, str]


def connect(conninfo: str) -> psycopg.Connection[Any]:
    """Return a connection on which each statement is its own commit."""
    return psycopg.connect(conninfo, autocommit=True)


def make_table(connection: psycopg.Connection[Any]) -> None:
    """Make an empty table, whatever an earlier run left."""
    drop_table(connection)
    with connection.transaction():
        connection.execute(CREATE)


def drop_table(connection: psycopg.Connection[Any]) -> None:
    connection.execute(f"drop table if exists {TABLE}")


def insert_one_a_commit(
    connection: psycopg.Connection[Any], rows: Sequence[Row], most: int
) -> None:
    """Insert the rows, one a commit; ``most`` is the number of attempts."""
    for id_, run_id, key, payload in rows:
        connection.execute(INSERT_ONE, (id_, run_id, NAME, QUEUE, key, payload, most))


def insert_by_thousands(
    connection: psycopg.Connection[Any], rows: Sequence[Row], most: int
) -> None:
    """Insert the rows, a thousand a statement and a commit."""
    for start in range(0, len(rows), CHUNK):
        columns = [list(column) for column in zip(*rows[start : start + CHUNK], strict=True)]
        connection.execute(INSERT_MANY, (NAME, QUEUE, most, *columns))


def drain(connection: psycopg.Connection[Any], *, inserts: bool) -> tuple[float, float, int]:
    """Claim and complete until nothing is left; return begin, end, and how many.

    Args:
        inserts: insert a row for each claimed one, each its own commit, before they complete.
    """
    worker, done = uuid4(), 0
    begins = time.time()
    while ids := claim(connection, worker, BATCH):
        if inserts:
            for id_ in ids:
                connection.execute(INSERT_EFFECT, (id_,))
        connection.execute(COMPLETE, (ids,))
        done += len(ids)
    return begins, time.time(), done


def claim(connection: psycopg.Connection[Any], worker: UUID, limit: int) -> list[UUID]:
    """Claim so many, in one statement and commit."""
    return [row[0] for row in connection.execute(CLAIM, (QUEUE, limit, worker)).fetchall()]
