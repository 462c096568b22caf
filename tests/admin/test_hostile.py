"""Nothing from a job is ever HTML, and the pages need no inline script or style."""

from __future__ import annotations

import json
import re
from uuid import uuid4

import pytest
from django.contrib import admin
from django.urls import reverse
from django.utils.safestring import mark_safe

from tests.admin.conftest import LIST, page_of, write_unknown_state
from ultimate_jobs.admin import JobAdmin
from ultimate_jobs.admin.jobs import state_badge
from ultimate_jobs.models import Job, JobEvent, Lease
from ultimate_jobs.types import Failure, WorkerCard

HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>\u202e{{ 7|add:7 }}"


@pytest.fixture
def hostile(queue) -> object:
    """A job all of whose texts are attacks; its id."""
    claim = queue.running(
        name=HOSTILE,
        queue=queue.queue,
        key=HOSTILE,
        tenant=HOSTILE,
        payload=json.dumps({HOSTILE: [HOSTILE]}),
        enqueued_by=HOSTILE,
        traceparent=HOSTILE,
    )
    queue.nack(
        claim,
        dead_letter=True,
        failure=Failure(error_class=HOSTILE, message=HOSTILE, traceback=HOSTILE),
    )
    JobEvent.objects.create(
        job_id=claim.id, run_id=claim.run_id, type=HOSTILE, detail={HOSTILE: HOSTILE}
    )
    Job.objects.filter(id=claim.id).update(result={HOSTILE: HOSTILE})
    return claim.id


@pytest.fixture
def queue(queue):
    """As everywhere, but its worker knows the hostile name."""
    queue.name = HOSTILE
    return queue


def inert(text: str) -> bool:
    return (
        "<script>alert" not in text
        and "<img src=x" not in text
        and "\u202e" not in text
        and ">14<" not in text
    )


def test_list_of_hostile_text_renders_it_inert(viewer, hostile) -> None:
    """Names, keys and tenants are text, in cells and in links."""
    text = viewer.get(reverse(LIST)).content.decode()

    assert "&lt;script&gt;alert" in text
    assert inert(text)


def test_page_of_hostile_text_renders_it_inert(viewer, hostile) -> None:
    """So are payloads, results, errors, tracebacks and events."""
    text = viewer.get(page_of(hostile)).content.decode()

    assert text.count("&lt;script&gt;alert") > 10
    assert inert(text)


def test_hostile_state_renders_inert(queue, viewer) -> None:
    """A state that this release does not know is text like any other."""
    job_id = queue.enqueue().id
    write_unknown_state(job_id)
    Job.objects.filter(id=job_id).update(state=HOSTILE)

    for url in (reverse(LIST), page_of(job_id)):
        assert inert(viewer.get(url).content.decode())


@pytest.mark.parametrize("field", ["name", "queue", "tenant", "key", "id", "state", "before"])
def test_hostile_search_renders_inert(queue, viewer, field: str) -> None:
    """What is typed into the form comes back as text."""
    page = viewer.get(reverse(LIST), {field: HOSTILE})

    assert page.status_code == 200
    assert "<script>alert" not in page.content.decode()
    assert "<img src=x" not in page.content.decode()


def test_hostile_id_renders_inert(queue, viewer) -> None:
    """An id in a URL is repeated as text."""
    page = viewer.get(page_of("<script>alert(1)</script>"), follow=True)

    assert "<script>alert" not in page.content.decode()


def test_lease_of_hostile_text_renders_it_inert(queue, viewer) -> None:
    """What a worker says of itself is not trusted either."""
    card = WorkerCard(
        worker=uuid4(), names=(), queues=(HOSTILE,), hostname=HOSTILE, pid=1, threads=1
    )
    queue.driver.leases.register(card)

    text = viewer.get(reverse("admin:ultimate_jobs_lease_changelist")).content.decode()
    page = viewer.get(
        reverse("admin:ultimate_jobs_lease_change", args=[Lease.objects.get().pk])
    ).content.decode()

    assert inert(text)
    assert "&lt;script&gt;alert" in text
    assert inert(page)


def test_queue_of_hostile_text_renders_it_inert(queue, viewer) -> None:
    """Who paused a queue gave any name."""
    queue.driver.queues.pause(HOSTILE, by=HOSTILE)

    text = viewer.get(reverse("admin:ultimate_jobs_queue_changelist")).content.decode()

    assert inert(text)
    assert text.count("&lt;script&gt;alert") >= 2


@pytest.mark.parametrize("column", ["job_name", "job_queue", "job_tenant", "job_key"])
def test_cell_of_a_safe_string_loses_its_claim(column: str) -> None:
    """Text that was marked safe in this very process is escaped all the same."""
    safe = mark_safe("<script>alert(1)</script>")
    job = Job(name=safe, queue=safe, tenant_id=safe, idempotency_key=safe)

    cell = getattr(JobAdmin(Job, admin.site), column)(job)

    assert type(cell) is str


def test_badge_of_a_safe_string_is_escaped() -> None:
    """The one cell that is HTML escapes what it puts in."""
    assert "<script>" not in state_badge(mark_safe("<script>"))


def test_page_calls_nothing_of_a_payload(queue, viewer) -> None:
    """Keys that look like methods are keys."""
    job_id = queue.enqueue(payload='{"items": 1, "keys": 2, "do_not_call_in_templates": 0}').id

    text = viewer.get(page_of(job_id)).content.decode()

    assert "&quot;items&quot;: 1" in text


@pytest.mark.parametrize("screen", ["list", "page", "leases", "queues"])
def test_screens_work_under_a_strict_content_security_policy(viewer, hostile, screen: str) -> None:
    """No inline script, no inline style, no handler attribute, nothing from elsewhere."""
    url = {
        "list": reverse(LIST),
        "page": page_of(hostile),
        "leases": reverse("admin:ultimate_jobs_lease_changelist"),
        "queues": reverse("admin:ultimate_jobs_queue_changelist"),
    }[screen]

    text = viewer.get(url).content.decode()

    assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>", text)
    assert not re.search(r"<style\b", text)
    assert not re.search(r"<[^>]+\sstyle=", text)
    assert not re.search(r"<[^>]+\son[a-z]+=", text)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', text)
