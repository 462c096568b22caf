"""The list of jobs: what it shows, what it finds, how it pages."""

from __future__ import annotations

import re

import pytest
from django.db import connection, connections
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.admin.conftest import LIST, write_unknown_state
from ultimate_jobs.admin import pages
from ultimate_jobs.drivers import use_driver
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.states import JobState


def listed(page) -> list[str]:
    return [str(job.id) for job in page.context["cl"].result_list]


def footer(page) -> str:
    [found] = re.findall(r'<nav class="uj-pages".*?</nav>', page.content.decode(), re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", found)).strip()


def test_list_shows_what_an_operator_looks_for(queue, viewer) -> None:
    """State, name, queue, tenant, key and attempt of each job."""
    claim = queue.running(key="invoice:1", tenant="acme", max_attempts=8)

    text = viewer.get(reverse(LIST)).content.decode()

    for shown in (queue.name, queue.queue, "acme", "invoice:1", "1 of 8", "uj-running"):
        assert shown in text
    assert str(claim.id) in text


def test_list_is_of_every_tenant_newest_first(queue, viewer) -> None:
    """It is an operators' surface."""
    first, second = queue.enqueue(tenant="acme").id, queue.enqueue().id

    assert listed(viewer.get(reverse(LIST))) == [str(second), str(first)]


@pytest.mark.parametrize("state", list(JobState))
def test_list_by_state_finds_only_its_jobs(queue, viewer, state: JobState) -> None:
    """Each state, through its index or without one."""
    wanted = queue.job_in(state)
    for other in [one for one in JobState if one is not state]:
        queue.queue = f"queue-of-{other}"
        queue.job_in(other)

    assert listed(viewer.get(reverse(LIST), {"state": state.value})) == [str(wanted)]


@pytest.mark.parametrize(
    ("field", "option"),
    [("queue", "queue"), ("name", "name"), ("tenant", "tenant"), ("key", "key")],
)
def test_list_by_an_exact_value_finds_only_its_jobs(queue, viewer, field: str, option: str) -> None:
    """A whole value, never a part of one."""
    wanted = queue.enqueue(**{option: "wanted"}).id
    queue.enqueue(**{option: "wanted-not"})

    page = viewer.get(reverse(LIST), {field: "wanted", "state": ""})

    assert listed(page) == [str(wanted)]
    assert 'value="wanted"' in page.content.decode()


def test_list_by_id_finds_that_job(queue, viewer) -> None:
    """An id is pasted and found."""
    wanted = queue.enqueue().id
    queue.enqueue()

    assert listed(viewer.get(reverse(LIST), {"id": str(wanted)})) == [str(wanted)]


def test_list_by_what_is_no_id_says_so(queue, viewer) -> None:
    """A typing error is shown beside its field, and lists nothing."""
    queue.enqueue()

    page = viewer.get(reverse(LIST), {"id": "seven"})

    assert page.status_code == 200
    assert listed(page) == []
    assert "Enter a valid UUID." in page.content.decode()


@pytest.mark.parametrize(
    "lookup", ["payload__a__contains", "last_error__icontains", "q2", "id__gt"]
)
def test_list_by_any_other_lookup_is_refused(queue, viewer, lookup: str) -> None:
    """No URL can make the list scan the table."""
    assert viewer.get(reverse(LIST), {lookup: "x"}).status_code == 400


def test_list_pages_by_id_and_shows_each_job_once(queue, viewer, monkeypatch) -> None:
    """Newest to oldest, nothing twice, nothing left out, and back to the start."""
    monkeypatch.setattr("ultimate_jobs.admin.JobAdmin.list_per_page", 2)
    wanted = [str(queue.enqueue().id) for _ in range(5)][::-1]

    found, url = [], reverse(LIST)
    while url:
        page = viewer.get(url)
        found += listed(page)
        follows = page.context["cl"].next_page
        url = reverse(LIST) + follows if follows else None

    assert found == wanted
    assert page.context["cl"].first_page is not None


def test_list_keeps_its_filter_from_page_to_page(queue, viewer, monkeypatch) -> None:
    """What was searched for is still searched for."""
    monkeypatch.setattr("ultimate_jobs.admin.JobAdmin.list_per_page", 1)
    older, newer = queue.enqueue(tenant="acme").id, queue.enqueue(tenant="acme").id
    queue.enqueue()

    first = viewer.get(reverse(LIST), {"tenant": "acme"})
    second = viewer.get(reverse(LIST) + first.context["cl"].next_page)

    assert listed(first) + listed(second) == [str(newer), str(older)]


def test_list_counts_honestly_up_to_its_cap(queue, viewer, monkeypatch) -> None:
    """Below the cap the number is exact, at the cap it is called a lower bound."""
    monkeypatch.setattr("ultimate_jobs.admin.JobAdmin.list_per_page", 1)
    monkeypatch.setattr(pages, "COUNT_CAP", 3)

    counts = []
    for _ in range(4):
        queue.enqueue()
        counts.append(footer(viewer.get(reverse(LIST))).split(" Older")[0])

    assert counts == ["1 job", "2 jobs", "3+ jobs", "3+ jobs"]


def test_list_by_a_value_without_index_looks_through_a_bounded_number(
    queue, viewer, monkeypatch
) -> None:
    """It says how far it looked, and the next page looks further."""
    monkeypatch.setattr(pages, "LOOK_THROUGH", 3)
    wanted = queue.enqueue(tenant="acme").id
    for _ in range(4):
        queue.enqueue()

    first = viewer.get(reverse(LIST), {"tenant": "acme"})
    second = viewer.get(reverse(LIST) + first.context["cl"].next_page)

    assert listed(first) == []
    assert "(looked through 3 jobs)" in footer(first)
    assert listed(second) == [str(wanted)]


def test_list_by_a_state_with_an_index_finds_jobs_however_old(queue, viewer, monkeypatch) -> None:
    """Dead jobs are found behind any number of newer ones."""
    monkeypatch.setattr(pages, "LOOK_THROUGH", 2)
    wanted = queue.job_in(JobState.DEAD)
    for _ in range(5):
        queue.job_in(JobState.COMPLETED)

    page = viewer.get(reverse(LIST), {"state": "dead"})

    assert listed(page) == [str(wanted)]
    assert footer(page) == "1 job"


@pytest.mark.parametrize("queues", [1, 2])
def test_list_by_dead_finds_the_newest_of_any_number(
    queue, viewer, monkeypatch, queues: int
) -> None:
    """More dead jobs than are counted, in several queues, and all of them old."""
    monkeypatch.setattr(pages, "LOOK_THROUGH", 2)
    monkeypatch.setattr(pages, "COUNT_CAP", 2)
    monkeypatch.setattr("ultimate_jobs.admin.JobAdmin.list_per_page", 2)
    dead = []
    for n in range(4):
        queue.queue = f"queue-{n % queues}"
        dead.append(str(queue.job_in(JobState.DEAD)))
    for _ in range(5):
        queue.job_in(JobState.COMPLETED)

    first = viewer.get(reverse(LIST), {"state": "dead"})
    second = viewer.get(reverse(LIST) + first.context["cl"].next_page)
    within = viewer.get(reverse(LIST), {"state": "dead", "queue": "queue-0"})

    assert listed(first) + listed(second) == dead[::-1]
    assert footer(first).startswith("2+ jobs")
    assert listed(within) == dead[::-1][queues - 1 :: queues][:2]


def test_list_with_an_unknown_state_in_a_row_shows_it_and_says_so(queue, viewer) -> None:
    """One row of a newer release never hides the others."""
    unknown, known = queue.enqueue().id, queue.enqueue().id
    write_unknown_state(unknown)

    page = viewer.get(reverse(LIST))

    assert listed(page) == [str(known), str(unknown)]
    assert "paused</span> unknown to this release" in page.content.decode()


@pytest.mark.parametrize("parameters", [{}, {"state": "ready"}, {"tenant": "acme"}])
def test_list_takes_the_same_statements_for_one_job_as_for_hundred(
    queue, viewer, parameters: dict[str, str]
) -> None:
    """No statement per row: session, user, permissions twice, and the list itself."""
    queue.enqueue(tenant="acme")
    with CaptureQueriesContext(connection) as one:
        viewer.get(reverse(LIST), parameters)
    queue.ask(*(queue.request(tenant="acme") for _ in range(99)))

    with CaptureQueriesContext(connection) as hundred:
        viewer.get(reverse(LIST), parameters)

    assert len(hundred) == len(one) <= 7


def test_list_reads_no_column_that_can_be_large(queue, viewer) -> None:
    """A hundred jobs with a megabyte each cost no more than a hundred small ones."""
    queue.enqueue()

    with CaptureQueriesContext(connection) as captured:
        viewer.get(reverse(LIST))

    [read] = [one["sql"] for one in captured if '"idempotency_key"' in one["sql"]]
    assert not re.search("payload|result|rerun|last_error", read)


def test_list_locks_and_counts_nothing(queue, viewer) -> None:
    """Looking does not disturb workers: no lock, no count without a limit."""
    queue.enqueue()

    with CaptureQueriesContext(connection) as captured:
        viewer.get(reverse(LIST))

    about_jobs = [one["sql"] for one in captured if "x_jobs" in one["sql"]]
    assert about_jobs
    assert all("LIMIT" in sql and "FOR UPDATE" not in sql for sql in about_jobs)


@pytest.mark.django_db(databases=["default", "other"])
@override_settings(ULTIMATE_JOBS={"DATABASE": "other"})
def test_list_reads_the_alias_of_the_queue(viewer) -> None:
    """Not the default one, and not what a router would choose."""
    with CaptureQueriesContext(connections["other"]) as captured:
        page = viewer.get(reverse(LIST))

    assert page.status_code == 200
    assert any("x_jobs" in one["sql"] for one in captured)


def test_list_over_the_memory_driver_says_that_there_is_nothing(viewer) -> None:
    """Its jobs are in another process, and no table is read for them."""
    use_driver(MemoryDriver())
    try:
        with CaptureQueriesContext(connection) as captured:
            page = viewer.get(reverse(LIST))
    finally:
        use_driver(None)

    assert page.status_code == 200
    assert "keeps its jobs in each process" in page.content.decode()
    assert not any("x_jobs" in one["sql"] for one in captured)


@override_settings(ULTIMATE_JOBS={"DRIVER": "redis"})
def test_list_over_a_driver_that_is_not_built_says_which(viewer) -> None:
    """A wrong setting is told on the page, in words."""
    page = viewer.get(reverse(LIST))

    assert page.status_code == 200
    assert "X_DRIVER_NOT_IMPLEMENTED" in page.content.decode()


def test_lease_list_shows_process_and_validity(queue, viewer) -> None:
    """Which process lives, and which lease has ended."""
    queue.start_worker()
    queue.advance(queue.lease_ttl_ms + 1000)
    queue.start_worker()

    text = viewer.get(reverse("admin:ultimate_jobs_lease_changelist")).content.decode()

    assert text.count("host-1:4711") == 2
    assert (text.count("icon-no"), text.count("icon-yes")) == (1, 1)
