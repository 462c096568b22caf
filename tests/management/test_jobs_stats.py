"""manage.py jobs stats and describe."""

from __future__ import annotations

import pytest

from ultimate_jobs.states import JobState

COUNTS = {"depth", "scheduled", "running", "dead", "unknown", "oldest_ready_seconds", "estimated"}


def test_stats_as_json_have_stable_keys(queue, jobs) -> None:
    """Queues, their sum and the live workers."""
    queue.start_worker()
    queue.enqueue()

    data = jobs("stats", "--json").data

    assert set(data) == {"queues", "total", "workers"}
    [one] = data["queues"]
    assert set(one) == COUNTS | {"queue", "paused_at", "paused_by"}
    assert set(data["total"]) == COUNTS
    [worker] = data["workers"]
    assert set(worker) == {
        "worker",
        "started_at",
        "renewed_at",
        "expires_at",
        "expired",
        "running",
        "info",
    }
    assert worker["info"]["hostname"] == "host-1"


def test_stats_of_two_queues_add_up(queue, jobs) -> None:
    """The sum is that of the lines above it, and its age is the oldest."""
    queue.job_in(JobState.DEAD)
    queue.enqueue()
    queue.advance(60_000)
    queue.enqueue(queue="another", name="nobody.knows")

    data = jobs("stats", "--json").data

    assert [one["depth"] for one in data["queues"]] == [1, 1]
    assert (data["total"]["depth"], data["total"]["dead"]) == (2, 1)
    assert data["total"]["oldest_ready_seconds"] >= 60


def test_stats_as_text_list_queues_and_workers(queue, jobs) -> None:
    """One line per queue, one for all, one per live worker."""
    worker = queue.start_worker()
    queue.enqueue()

    lines = jobs("stats").out.splitlines()

    assert lines[1].split()[:2] == [queue.queue, "1"]
    assert lines[2].split()[:2] == ["(all)", "1"]
    assert lines[-1].split()[:3] == [str(worker), "host-1:4711", "0/4"]


def test_stats_without_workers_say_so(queue, jobs) -> None:
    """Nobody working is what an operator must see first."""
    assert "no worker is alive" in jobs("stats").out


def test_stats_past_the_cap_are_marked(queue, jobs, monkeypatch) -> None:
    """A count that stopped at the cap is called a lower bound."""
    monkeypatch.setattr("ultimate_jobs.drivers.postgres.introspection.COUNT_CAP", 2)
    for _ in range(3):
        queue.enqueue()

    text, data = jobs("stats").out, jobs("stats", "--json").data

    assert "~2" in text
    assert "at least this many" in text
    assert data["total"]["estimated"] is True


def test_describe_lists_every_declared_job(jobs) -> None:
    """The projection of the registry, without key and inputs."""
    data = jobs("describe", "--json").data

    names = [job["name"] for job in data["jobs"]]
    assert "tests.flaky" in names
    assert set(data["jobs"][0]) == {"name", "queue", "retry", "steps", "idempotent"}
    assert "tests.flaky" in jobs("describe").out


def test_describe_of_one_name_gives_only_that(jobs) -> None:
    """The same object as in the list."""
    answer = jobs("describe", "tests.flaky", "--json")

    [job] = answer.data["jobs"]
    assert job == {
        "name": "tests.flaky",
        "queue": "default",
        "retry": {"attempts": 3, "backoff": "fixed"},
        "steps": [],
        "idempotent": True,
    }


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_describe_of_an_unknown_name_is_refused(jobs, flags: tuple[str, ...]) -> None:
    """The code, and exit 1."""
    answer = jobs("describe", "tests.nothing", *flags)

    assert answer.code == 1
    assert "X_JOB_UNKNOWN" in answer.out + answer.err


def test_describe_of_an_empty_registry_says_so(jobs, own_registry) -> None:
    """No job at all is told in words."""
    assert jobs("describe").out.strip() == "no job is declared"
