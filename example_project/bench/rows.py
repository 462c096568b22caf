"""Our rows of x_jobs: put there, recounted by SQL that the worker does not share, and removed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from uuid import UUID

from django.db import connection, transaction
from django.db.utils import OperationalError

from example_project.bench.jobs import NAMES, noop
from example_project.bench.server import query

CHUNK = 100_000
DELETE_BATCH = 10_000

# The ids rise, as those of real enqueues do: their first half is a clock.
FILL = """
insert into x_jobs (
    id, run_id, name, queue, tenant_id, idempotency_key, payload, max_attempts, state,
    run_at, due_at, created_at, updated_at, attempt, claimed_at, finished_at)
select made.id, made.id, %(name)s::text, %(queue)s::text || to_char(n %% %(queues)s, 'FM0000'),
    case when %(tenants)s > 0 then 'bench-' || n %% %(tenants)s end,
    %(run)s::text || ':' || n, jsonb_build_object('run', %(run)s::text, 'n', n),
    %(max_attempts)s, %(state)s::text, at.moment, at.moment, at.moment, at.moment,
    case when at.is_final then 1 else 0 end,
    case when at.is_final then at.moment end, case when at.is_final then at.moment end
from generate_series(%(first)s::bigint, %(last)s::bigint) as n
cross join lateral (
    select (lpad(to_hex(%(clock)s::bigint + n / 1000), 12, '0') || '7'
        || lpad(to_hex(n %% 1000), 3, '0') || '8000' || lpad(to_hex(n), 12, '0'))::uuid as id
) made
cross join lateral (
    select %(state)s::text = 'completed' as is_final, x_now()
        - case when %(state)s::text = 'completed' then interval '1 hour' else '0' end as moment
) at
"""

# From when every worker has claimed until one has nothing more to do: what all did together.
RECOUNT = """
with mine as materialized (
    select worker, claimed_at, finished_at from x_jobs
    where starts_with(queue, %(queue)s) and state = 'completed' and worker is not null
),
span as (
    select min(claimed_at) as first_at, max(finished_at) as last_at from mine group by worker
),
together as (
    select max(first_at) as begins, min(last_at) as ends, count(*) as workers from span
)
select
    together.workers,
    (select count(*) from mine),
    (select count(*) from mine where finished_at between together.begins and together.ends),
    coalesce(extract(epoch from together.ends - together.begins), 0)::float8
from together
"""

WINDOWS = """
with mine as materialized (
    select finished_at, min(claimed_at) over () as begins from x_jobs
    where starts_with(queue, %(queue)s) and state = 'completed' and worker is not null
),
counted as (
    select floor(extract(epoch from finished_at - begins) / %(seconds)s)::integer as nth
    from mine
)
select nth, count(*) from counted group by nth order by nth
"""

DELETE = """
with batch as (
    select id from x_jobs where name = any(%(names)s) and id > %(after)s order by id limit %(limit)s
),
gone as (delete from x_jobs j using batch where j.id = batch.id)
select id from batch order by id desc limit 1
"""


@dataclass(frozen=True, slots=True)
class Recount:
    """What workers did, told by the committed rows; their start-up is not in it."""

    workers: int
    completed: int
    counted: int
    seconds: float


class Rows:
    """The rows of one run; their queues begin with the run's own prefix."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.queue = f"bench-{run}-"
        self._clock = int(time.time() * 1000)
        self._next = 0

    def numbers(self, count: int) -> range:
        """Return numbers that no other row of the run has; they make keys and ids."""
        first = self._next
        self._next += count
        return range(first, self._next)

    def id_of(self, number: int) -> UUID:
        """Return the id that ``fill`` gives to a number."""
        clock, rest = f"{self._clock + number // 1000:012x}", f"{number % 1000:03x}"
        return UUID(f"{clock}7{rest}8000{number:012x}")

    def fill(self, count: int, *, state: str = "ready", queues: int = 1, tenants: int = 0) -> range:
        """Insert no-op jobs in bulk, spread over so many queues and tenants."""
        numbers = self.numbers(count)
        for start in range(numbers.start, numbers.stop, CHUNK):
            query(
                FILL,
                {
                    "run": self.run,
                    "name": noop.definition.name,
                    "max_attempts": noop.definition.retry.attempts,
                    "queue": self.queue,
                    "queues": queues,
                    "tenants": tenants,
                    "state": state,
                    "clock": self._clock,
                    "first": start,
                    "last": min(start + CHUNK, numbers.stop) - 1,
                },
            )
        return numbers

    def recount(self) -> Recount:
        """Return what the workers completed since the last ``remove``."""
        return Recount(*query(RECOUNT, {"queue": self.queue}))

    def windows(self, seconds: float) -> list[int]:
        """Return how many ended in each window since the first claim, empty ones too."""
        with connection.cursor() as cursor:
            cursor.execute(WINDOWS, {"queue": self.queue, "seconds": seconds})
            found = dict(cursor.fetchall())
        return [found.get(nth, 0) for nth in range(max(found, default=-1) + 1)]

    def remove(self) -> None:
        """Remove the bench's rows, an earlier run's too; the next phase finds a small table."""
        query("truncate bench_insertion")
        if not self._truncated():
            self._delete_in_batches()
            query("vacuum (analyze) x_jobs")

    def _truncated(self) -> bool:
        """Empty the table where nobody else has a row in it: files as new for every phase."""
        if query("select exists (select from x_jobs where name <> all(%s))", [NAMES])[0]:
            return False
        try:
            with transaction.atomic():
                query("set local lock_timeout = '2s'")
                query("lock table x_jobs in access exclusive mode")
                # Again, now that nobody can add one.
                if query("select exists (select from x_jobs where name <> all(%s))", [NAMES])[0]:
                    return False
                query("truncate x_jobs")
        except OperationalError:
            return False
        return True

    def _delete_in_batches(self) -> None:
        after: UUID | None = UUID(int=0)
        while after is not None:
            found = query(DELETE, {"names": NAMES, "after": after, "limit": DELETE_BATCH})
            after = found[0] if found else None


def settle() -> None:
    """Do now what autovacuum does within a minute: statistics of what was just put there."""
    query("analyze x_jobs")
