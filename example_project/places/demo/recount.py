"""The figures of a run, recounted by SQL from the app's own tables and the queue's rows.

Only the tenants of the run are counted, so that nothing else in the database changes a figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

# Accepted, could succeed, and yet no body had its effect.
LOST = """
select count(*)
from places_request request
where request.tenant_id = any(%(tenants)s)
    and request.kind <> 'boundary'
    and not exists (select from places_effect effect where effect.job_id = request.job_id)
"""

# Accepted once, and more than one body had its effect.
DOUBLED = """
select count(*)
from (
    select request.job_id
    from places_request request
    join places_effect effect on effect.job_id = request.job_id
    where request.tenant_id = any(%(tenants)s)
    group by request.job_id
    having count(*) > 1
) doubled
"""

STATES = """
select
    count(*),
    count(*) filter (where job.state = 'completed'),
    count(*) filter (where job.state = 'dead'),
    count(*) filter (where job.attempt > 1),
    count(*) filter (where job.state not in ('completed', 'dead', 'cancelled')),
    coalesce(
        extract(epoch from max(job.finished_at) - min(job.claimed_at)), 0)::float8
from places_request request
left join x_jobs job on job.id = request.job_id
where request.tenant_id = any(%(tenants)s)
"""

# A retried job that completed: its history is worth showing.
RETRIED_JOB = """
select request.job_id
from places_request request
join x_jobs job on job.id = request.job_id
where request.tenant_id = any(%(tenants)s)
    and request.kind = 'address' and job.state = 'completed' and job.attempt > 1
order by request.job_id
limit 1
"""


@dataclass(frozen=True, slots=True)
class States:
    """How the jobs of a run stand; ``seconds`` is from the first claim to the last end."""

    accepted: int
    completed: int
    dead: int
    retried: int
    live: int
    seconds: float

    @property
    def done(self) -> int:
        return self.completed + self.dead

    @property
    def jobs_per_second(self) -> float:
        return round(self.done / self.seconds, 1) if self.seconds > 0 else 0.0


def count_states(tenants: Sequence[str]) -> States:
    """Return how the run's accepted jobs stand now."""
    return States(*_row(STATES, tenants))


def count_lost(tenants: Sequence[str]) -> int:
    """Return how many accepted jobs, poison apart, never had their effect."""
    return int(_row(LOST, tenants)[0])


def count_doubled(tenants: Sequence[str]) -> int:
    """Return how many accepted jobs had their effect more than once."""
    return int(_row(DOUBLED, tenants)[0])


def find_retried_job(tenants: Sequence[str]) -> str | None:
    """Return the id of a job that failed first and completed after, if the run had one."""
    found = _row(RETRIED_JOB, tenants)
    return str(found[0]) if found else None


def _row(sql: str, tenants: Sequence[str]) -> tuple:
    with connection.cursor() as cursor:
        cursor.execute(sql, {"tenants": list(tenants)})
        return cursor.fetchone() or ()
