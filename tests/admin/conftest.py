"""Who looks at the screens, and a queue of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.urls import reverse

from tests.contract.harness import PostgresHarness

LIST = "admin:ultimate_jobs_job_changelist"


@pytest.fixture
def queue(db: None) -> Iterator[PostgresHarness]:
    """Short words for bringing jobs into a state."""
    harness = PostgresHarness()
    yield harness
    harness.close()


@pytest.fixture
def viewer(db: None) -> Client:
    """Staff with the view permissions of this app, and no other."""
    wanted = Permission.objects.filter(
        content_type__app_label="ultimate_jobs",
        codename__in=["view_job", "view_lease", "view_queue"],
    )
    return _staff("viewer", list(wanted))


@pytest.fixture
def stranger(db: None) -> Client:
    """Staff without any permission."""
    return _staff("stranger", [])


def _staff(name: str, permissions: list[Permission]) -> Client:
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(permissions)
    client = Client()
    client.force_login(user)
    return client


def page_of(job_id: object) -> str:
    """Return the URL of one job's page."""
    return reverse("admin:ultimate_jobs_job_change", args=[job_id])


def write_unknown_state(job_id: object) -> None:
    """Do what a newer release would do."""
    with connection.cursor() as cursor:
        cursor.execute("alter table x_jobs drop constraint x_jobs_state_known")
        cursor.execute("update x_jobs set state = 'paused' where id = %s", [job_id])
