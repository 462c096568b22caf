"""The pages of the example: the index, the admin, and who may see it."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model

from example_project.places.demo.serve import _demo_user
from example_project.places.models import Tenant

pytestmark = pytest.mark.django_db


def test_index_shows_the_tenants(client):
    """A visitor sees who there is, and where the admin is."""
    Tenant.objects.create(slug="dnipro", language="uk")

    page = client.get("/", headers={"host": "127.0.0.1"})

    assert page.status_code == 200
    assert b"dnipro" in page.content
    assert b'href="/admin/"' in page.content


def test_another_host_is_refused(client):
    """A page elsewhere cannot reach the demo through a name of its own."""
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400


def test_demo_user_sees_the_admin_while_it_serves(client, places):
    """The printed password opens every list, and the user is gone afterwards."""
    Tenant.objects.create(slug="dnipro", language="uk")
    with _demo_user("abc123") as (name, password):
        assert client.login(username=name, password=password)
        for model in ("tenant", "subdivision", "searchentry", "address", "request", "effect"):
            page = client.get(f"/admin/places/{model}/", headers={"host": "localhost"})
            assert page.status_code == 200, model

    assert not get_user_model().objects.exists()


def test_settings_are_for_this_machine_only():
    """Nothing is served to others, and no debug page shows what is inside."""
    assert settings.DEBUG is False
    assert set(settings.ALLOWED_HOSTS) <= {"127.0.0.1", "localhost", "[::1]", "testserver"}
