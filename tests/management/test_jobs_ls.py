"""manage.py jobs ls: which jobs it lists, and what it never lets through."""

from __future__ import annotations

import pytest
from django.core.management.base import CommandError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ultimate_jobs.states import JobState
from ultimate_jobs.types import Failure

HOSTILE = "\x1b[31mred\x1b[0m\nsecond line\r\u202e"
KEYS = {
    "id",
    "run_id",
    "name",
    "queue",
    "tenant",
    "key",
    "state",
    "priority",
    "attempt",
    "max_attempts",
    "due_at",
    "run_at",
    "created_at",
    "finished_at",
    "last_error",
    "age_seconds",
    "unreadable",
}


def ids_of(answer) -> list[str]:
    return [job["id"] for job in answer.data["jobs"]]


def test_ls_without_filters_lists_every_tenant_newest_first(queue, jobs) -> None:
    """An operator sees the jobs of all tenants, the newest first."""
    first = queue.enqueue(tenant="acme").id
    second = queue.enqueue().id

    answer = jobs("ls", "--queue", queue.queue, "--json")

    assert answer.code == 0
    assert ids_of(answer) == [str(second), str(first)]


def test_ls_as_json_has_stable_keys(queue, jobs) -> None:
    """The keys of a listed job are a promise; its payload and result are not among them."""
    queue.enqueue()

    [job] = jobs("ls", "--json").data["jobs"]

    assert set(job) == KEYS
    assert job["state"] == "ready"
    assert job["last_error"] is None
    assert job["unreadable"] is None


def test_ls_as_text_shows_one_line_per_job(queue, jobs) -> None:
    """A job is one line with its id, state, name and key."""
    job_id = queue.enqueue(key="invoice:1", tenant="acme").id

    headings, line = jobs("ls").out.splitlines()

    assert headings.split()[:3] == ["ID", "STATE", "NAME"]
    assert line.split()[:2] == [str(job_id), "ready"]
    assert "invoice:1" in line
    assert "acme" in line


def test_ls_without_a_match_says_so(queue, jobs) -> None:
    """An empty list is no error and no empty screen."""
    answer = jobs("ls", "--queue", queue.queue)

    assert answer.code == 0
    assert answer.out.strip() == "no job matches"


def test_ls_by_states_lists_each_of_them(queue, jobs) -> None:
    """``--state`` may be given more than once."""
    dead = queue.job_in(JobState.DEAD)
    cancelled = queue.job_in(JobState.CANCELLED)
    queue.job_in(JobState.COMPLETED)

    answer = jobs("ls", "--state", "dead", "--state", "cancelled", "--json")

    assert ids_of(answer) == [str(cancelled), str(dead)]


@pytest.mark.parametrize("option", ["queue", "name", "key", "tenant"])
def test_ls_by_an_exact_value_lists_only_its_jobs(queue, jobs, option: str) -> None:
    """Each filter restricts to one value."""
    wanted = queue.enqueue(**{option: "wanted"}).id
    queue.enqueue(**{option: "other"})

    answer = jobs("ls", f"--{option}", "wanted", "--json")

    assert ids_of(answer) == [str(wanted)]


def test_ls_tenantless_lists_no_tenant(queue, jobs) -> None:
    """``--tenantless`` is not the absence of the filter."""
    mine = queue.enqueue().id
    queue.enqueue(tenant="acme")

    answer = jobs("ls", "--tenantless", "--json")

    assert ids_of(answer) == [str(mine)]


def test_ls_beyond_its_limit_tells_how_to_go_on(queue, jobs) -> None:
    """The page that follows begins where the page before ended, and nothing is listed twice."""
    wanted = [str(queue.enqueue().id) for _ in range(5)][::-1]

    first = jobs("ls", "--limit", 2, "--json")
    second = jobs("ls", "--limit", 2, "--before", first.data["next_before"], "--json")
    last = jobs("ls", "--limit", 2, "--before", second.data["next_before"], "--json")

    assert ids_of(first) + ids_of(second) + ids_of(last) == wanted
    assert last.data["next_before"] is None
    assert f"--before {first.data['next_before']}" in jobs("ls", "--limit", 2).out


def test_ls_before_no_id_is_refused(queue, jobs) -> None:
    """What is no id has a code of its own."""
    answer = jobs("ls", "--before", "yesterday", "--json")

    assert answer.code == 1
    assert answer.data["error"]["code"] == "X_ARGUMENT_INVALID"


def test_ls_with_an_unknown_state_in_a_row_lists_it_and_says_so(queue, jobs, newer_state) -> None:
    """One row of a newer release never hides the others."""
    known = queue.enqueue().id

    text, data = jobs("ls"), jobs("ls", "--json")

    assert (text.code, data.code) == (0, 0)
    assert ids_of(data) == [str(known), newer_state]
    unread = data.data["jobs"][1]
    assert set(unread) == KEYS
    assert unread["state"] is None
    assert "x_jobs.state holds 'paused'" in unread["unreadable"]
    assert f"{newer_state} cannot be read: x_jobs.state holds 'paused'" in text.out


def test_ls_of_hostile_text_prints_no_control_character(queue, jobs) -> None:
    """What a job is called can neither colour a terminal nor forge a line."""
    queue.enqueue(name=HOSTILE, key=HOSTILE, tenant=HOSTILE)

    text, data = jobs("ls").out, jobs("ls", "--json").out

    assert len(text.splitlines()) == 2
    assert "\\x1b[31mred" in text
    assert all(char.isprintable() or char == "\n" for char in text)
    assert all(char.isprintable() or char == "\n" for char in data)


def test_ls_of_many_jobs_takes_a_constant_number_of_statements(queue, jobs) -> None:
    """A longer list is no more statements."""
    for _ in range(30):
        queue.enqueue()

    with CaptureQueriesContext(
        connection,
    ) as captured:
        jobs("ls", "--json")

    assert len(captured) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("--limit", "0"),
        ("--limit", "1001"),
        ("--limit", "many"),
        ("--state", "done"),
        ("--tenant", "acme", "--tenantless"),
    ],
)
def test_ls_with_wrong_usage_is_refused(jobs, arguments: tuple[str, ...]) -> None:
    """A misspelt option is argparse's to refuse."""
    with pytest.raises(CommandError):
        jobs("ls", *arguments)


def test_ls_as_json_tells_why_a_job_is_dead(queue, jobs) -> None:
    """Whoever looks for dead jobs need not ask for each of them."""
    claim = queue.running()
    queue.nack(claim, dead_letter=True, failure=Failure("ValueError", "no such bill", ""))

    [job] = jobs("ls", "--state", "dead", "--json").data["jobs"]

    assert "no such bill" in job["last_error"]
    assert job["unreadable"] is None
