"""manage.py jobs prune."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings

from tests.factories import JobFactory
from ultimate_jobs.ids import first_id_at
from ultimate_jobs.models import Job

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def history() -> None:
    """Two completed jobs and a dead one of twenty days ago, and a completed one of today."""
    for days, state in ((20, "completed"), (20.1, "completed"), (20.2, "dead"), (0, "completed")):
        moment = datetime.now(UTC) - timedelta(days=days)
        JobFactory(state=state, finished_at=moment, id=first_id_at(moment))


def test_prune_removes_what_is_kept_no_more(jobs) -> None:
    """And tells how much, and how long each state is kept."""
    answer = jobs("prune", "--json")

    assert answer.code == 0
    assert answer.data == {
        "dry_run": False,
        "removed": {"completed": 2, "cancelled": 0, "dead": 0, "events": 0, "steps": 0},
        "kept_seconds": {"completed": 1209600.0, "cancelled": 1209600.0, "dead": 7776000.0},
    }
    assert sorted(Job.objects.values_list("state", flat=True)) == ["completed", "dead"]


def test_prune_that_only_counts_removes_nothing(jobs) -> None:
    """The same answer as the prune that follows it, but for its name."""
    told = jobs("prune", "--dry-run", "--json").data
    count = Job.objects.count()
    done = jobs("prune", "--json").data

    assert count == 4
    assert told == done | {"dry_run": True}


def test_prune_as_text_has_a_line_for_each_state(jobs) -> None:
    """Counts and periods, and what is kept for ever."""
    keep = {"dead": None, "completed": timedelta(days=3)}

    with override_settings(ULTIMATE_JOBS={"RETENTION": keep}):
        told, done = jobs("prune", "--dry-run").out.splitlines(), jobs("prune").out.splitlines()

    assert told[0].split() == ["STATE", "WOULD", "GO", "KEPT", "FOR"]
    assert done[0].split() == ["STATE", "REMOVED", "KEPT", "FOR"]
    assert told[1:] != []
    assert [line.split()[:2] for line in done[1:4]] == [
        ["completed", "2"],
        ["cancelled", "0"],
        ["dead", "0"],
    ]
    assert "3d" in done[1]
    assert done[3].endswith("ever")
    assert done[4] == "with 0 events and 0 steps of their runs"


def test_prune_with_a_setting_that_is_refused_removes_nothing(jobs) -> None:
    """The code says what is wrong, and nothing was touched."""
    with override_settings(ULTIMATE_JOBS={"RETENTION": {"completed": 60}}):
        answer = jobs("prune")

    assert answer.code == 1
    assert "X_SETTING_INVALID" in answer.err
    assert Job.objects.count() == 4
