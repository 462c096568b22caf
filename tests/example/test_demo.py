"""``manage.py demo`` in processes of its own: the figures follow the flags, run after run."""

from __future__ import annotations

import json

import psycopg

from tests.example.conftest import Manage

SMALL = ("demo", "--tenants", "2", "--duplicates", "5", "--poison", "2", "--limit", "120")


def test_demo_twice_gives_right_figures(manage: Manage, example_database: str):
    """A second run counts its own jobs only, though the first left its rows behind."""
    for _ in range(2):
        told = manage(*SMALL, "--json")

        assert told.returncode == 0, told.stderr
        found = json.loads(told.stdout)
        assert found["lost"] == found["doubled"] == 0
        assert (found["deduped"], found["dead"]) == (5, 2)
        # Every place and one address for each of two tenants, and the poison.
        assert found["enqueued"] == 2 * (120 + 1) + 2
        assert found["completed"] == 2 * (120 + 1)
        assert found["retried"] == 2 + 2
        assert found["jobs_per_second"] > 0
        assert_recounted(example_database, found)


def test_demo_in_words_shows_a_trace(manage: Manage):
    """People read what happened and how one job failed first; the operators' command sees it."""
    told = manage("demo", "--tenants", "1", "--duplicates", "0", "--poison", "1", "--limit", "40")

    assert told.returncode == 0, told.stderr
    assert "Nothing was lost, nothing doubled." in told.stdout
    assert "attempt 1 failed: GeocoderUnavailable: no answer for" in told.stdout
    assert "attempt 2 failed: GeocoderUnavailable" in told.stdout
    assert "attempt 3 completed" in told.stdout
    assert "jobs ended" in told.stderr

    listed = manage("jobs", "ls", "--state", "dead", "--json")
    assert listed.returncode == 0, listed.stderr
    names = {job["name"] for job in json.loads(listed.stdout)["jobs"]}
    assert names == {"places.import_boundary"}


def test_demo_refuses_a_flag_and_changes_nothing(manage: Manage, example_database: str):
    """A wrong flag is refused in words before anything is written."""
    before = tenants(example_database)

    told = manage("demo", "--tenants", "many")

    assert told.returncode == 1
    assert told.stderr.startswith("X_ARGUMENT_INVALID: --tenants takes a whole number")
    assert tenants(example_database) == before


def test_migrations_are_complete(manage: Manage):
    """The models of the example match its migrations."""
    told = manage("makemigrations", "--check", "--dry-run")

    assert told.returncode == 0, told.stdout


def assert_recounted(url: str, found: dict) -> None:
    """Count again, by SQL that the demo does not share."""
    with psycopg.connect(url) as connection:
        mine = f"%-{found['run']}"
        jobs = connection.execute(
            "select state, count(*)::int from x_jobs where tenant_id like %s group by 1", [mine]
        ).fetchall()
        effects, of_jobs = connection.execute(
            "select count(*)::int, count(distinct job_id)::int from places_effect"
            " where tenant_id like %s",
            [mine],
        ).fetchone()
    assert dict(jobs) == {"completed": found["completed"], "dead": found["dead"]}
    assert effects == of_jobs == found["completed"]


def tenants(url: str) -> list[tuple] | None:
    """Return the tenants, or ``None`` where not even their table is there."""
    with psycopg.connect(url) as connection:
        if connection.execute("select to_regclass('places_tenant')").fetchone() == (None,):
            return None
        return connection.execute("select slug from places_tenant order by 1").fetchall()
