"""The admin's list on a table with history: every statement goes by an index."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from ultimate_jobs.admin import pages
from ultimate_jobs.ids import new_id
from ultimate_jobs.models import Job
from ultimate_jobs.states import JobState

ROWS = 20_000
LIST = "admin:ultimate_jobs_job_changelist"
# The old ones are all behind the new ones, which is where a planner guesses wrong.
RARE = {
    JobState.DEAD.value: 60,
    JobState.READY.value: 40,
    JobState.DELAYED.value: 20,
    JobState.SUSPENDED.value: 20,
    JobState.RUNNING.value: 10,
    JobState.CANCELLED.value: 30,
}


@pytest.fixture(scope="module")
def history(django_db_setup, django_db_blocker) -> Iterator[None]:
    """Twenty thousand finished jobs, a few live and dead ones behind them, and fresh statistics."""
    states = [state for state, count in RARE.items() for _ in range(count)]
    states += [JobState.COMPLETED.value] * (ROWS - len(states))
    with django_db_blocker.unblock():
        Job.objects.bulk_create(map(_job, states), batch_size=2000)
        _execute("vacuum analyze x_jobs")
        yield
        _execute("truncate x_jobs")
        _execute("analyze x_jobs")


def _job(state: str) -> Job:
    id_ = new_id()
    return Job(
        id=id_,
        run_id=id_,
        name="plans.job",
        queue="plans",
        idempotency_key=str(id_),
        payload={"text": "x" * 200},
        state=state,
    )


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def _plans(client, parameters: dict[str, str]) -> list[dict]:
    with CaptureQueriesContext(connection) as captured:
        page = client.get(reverse(LIST), parameters)
    assert page.status_code == 200
    read = [one["sql"] for one in captured if 'FROM "x_jobs"' in one["sql"]]
    assert read
    return [_explained(sql) for sql in read]


def _explained(sql: str) -> dict:
    with connection.cursor() as cursor:
        cursor.execute("explain (analyze, format json) " + sql.replace("%", "%%"), ())
        found = cursor.fetchone()[0]
    plan = found if isinstance(found, list) else json.loads(found)
    return dict(plan[0]["Plan"])


def _nodes(plan: dict) -> Iterator[dict]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from _nodes(inner)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"before": "last"},
        *({"state": state.value} for state in JobState),
        {"state": "dead", "queue": "plans"},
        {"state": "dead", "name": "plans.job", "before": "last"},
        {"state": "completed", "queue": "plans"},
        {"queue": "nowhere"},
        {"name": "nothing"},
        {"tenant": "nobody"},
        {"key": "none"},
        {"tenant": "nobody", "before": "last"},
        {"id": "last"},
    ],
    ids=lambda parameters: "-".join(parameters.values()) or "all",
)
def test_list_of_many_jobs_never_scans_the_table(
    history, admin_client, monkeypatch, parameters: dict[str, str]
) -> None:
    """Whatever is asked for, no statement reads more jobs than the bound."""
    monkeypatch.setattr(pages, "LOOK_THROUGH", 1000)
    monkeypatch.setattr(pages, "COUNT_CAP", 1000)
    middle = Job.objects.order_by("-id").values_list("id", flat=True)[5000]
    given = {key: str(middle) if value == "last" else value for key, value in parameters.items()}

    plans = _plans(admin_client, given)

    for node in (node for plan in plans for node in _nodes(plan)):
        if node.get("Relation Name") == "x_jobs":
            assert "Seq Scan" not in node["Node Type"], node
            assert node["Actual Rows"] + node.get("Rows Removed by Filter", 0) <= 1001, node


@pytest.mark.django_db
@pytest.mark.parametrize("state", ["dead", "ready", "delayed", "suspended", "running"])
def test_list_by_a_rare_state_finds_every_job_behind_the_history(
    history, admin_client, monkeypatch, state: str
) -> None:
    """They are older than the bound, and are found all the same."""
    monkeypatch.setattr(pages, "LOOK_THROUGH", 1000)

    page = admin_client.get(reverse(LIST), {"state": state})

    assert len(page.context["cl"].result_list) == RARE[state]
