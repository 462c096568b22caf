"""Who may look, and that nobody may change."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests.admin.conftest import LIST, page_of
from ultimate_jobs.states import JobState


@pytest.mark.parametrize("model", ["job", "lease", "queue"])
def test_list_with_the_view_permission_is_shown(queue, viewer, model: str) -> None:
    """The permission that grants the screen grants its rows."""
    queue.running()
    queue.driver.queues.pause(queue.queue, by="ann")

    page = viewer.get(reverse(f"admin:ultimate_jobs_{model}_changelist"))

    assert page.status_code == 200
    assert len(page.context["cl"].result_list) == 1


@pytest.mark.parametrize("model", ["job", "lease", "queue"])
def test_list_without_a_permission_is_forbidden(queue, stranger, model: str) -> None:
    """Being staff is not enough."""
    page = stranger.get(reverse(f"admin:ultimate_jobs_{model}_changelist"))

    assert page.status_code == 403


@pytest.mark.parametrize("view", ["change", "history"])
def test_pages_of_a_job_obey_the_same_rule(queue, viewer, stranger, view: str) -> None:
    """What the list hides, its pages do not show."""
    job_id = queue.enqueue(key="secret-key").id
    url = reverse(f"admin:ultimate_jobs_job_{view}", args=[job_id])

    shown, hidden = viewer.get(url), stranger.get(url)

    assert shown.status_code == 200
    assert hidden.status_code == 403
    assert b"secret-key" not in hidden.content


def test_page_of_no_job_tells_a_stranger_nothing(queue, stranger) -> None:
    """Whether an id exists is not told either."""
    assert stranger.get(page_of("0198c2f4-7a10-7e51-9a52-3f8f2f6c1d20")).status_code == 403


def test_anonymous_is_sent_to_the_login(queue, client) -> None:
    """As everywhere in the admin."""
    page = client.get(page_of(queue.enqueue().id))

    assert page.status_code == 302
    assert "/login/" in page.url


@pytest.mark.parametrize("view", ["add", "delete"])
def test_superuser_can_neither_add_nor_delete(queue, admin_client, view: str) -> None:
    """The screens are read-only for everybody."""
    job_id = queue.enqueue().id
    name = f"admin:ultimate_jobs_job_{view}"
    url = reverse(name) if view == "add" else reverse(name, args=[job_id])

    assert admin_client.get(url).status_code == 403
    assert admin_client.post(url, {"post": "yes"}).status_code == 403
    assert queue.get(job_id).state is JobState.READY


def test_post_to_a_page_changes_nothing(queue, admin_client) -> None:
    """A forged form finds nothing to change."""
    job_id = queue.enqueue(key="before").id

    admin_client.post(page_of(job_id), {"idempotency_key": "after", "_save": "Save"})
    admin_client.post(
        reverse(LIST), {"action": "delete_selected", "_selected_action": [str(job_id)]}
    )

    assert queue.get(job_id).key == "before"


def test_list_offers_no_action(queue, admin_client) -> None:
    """Neither a check box nor a button for what is not allowed."""
    queue.enqueue()

    text = admin_client.get(reverse(LIST)).content.decode()

    assert "delete_selected" not in text
    assert "action-select" not in text
