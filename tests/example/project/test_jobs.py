"""The bodies of the example's jobs, run as a worker runs them."""

from __future__ import annotations

import pytest

from example_project.places.boundaries import BoundaryCorrupt
from example_project.places.geocoder import GeocoderUnavailable
from example_project.places.jobs import find_address, import_boundary, index_subdivision
from example_project.places.models import Address, Effect, SearchEntry, Tenant

pytestmark = pytest.mark.django_db


def test_index_subdivision_stores_the_name_in_the_tenants_language(context, places):
    """Two tenants index one place, each in its own language, each with its own effect."""
    for slug, language in (("dnipro", "uk"), ("ganges", "hi")):
        Tenant.objects.create(slug=slug, language=language)
        index_subdivision(context(slug), code="AD-07")

    found = dict(SearchEntry.objects.values_list("tenant_id", "scripts"))
    assert set(found["dnipro"]) == {"CYRILLIC"}
    assert set(found["ganges"]) == {"DEVANAGARI"}
    assert Effect.objects.count() == 2


def test_index_subdivision_again_updates_the_entry(context, places):
    """A second execution leaves one entry, and a second effect that shows it."""
    Tenant.objects.create(slug="dnipro", language="uk")

    index_subdivision(context("dnipro"), code="AD-07")
    index_subdivision(context("dnipro"), code="AD-07")

    assert SearchEntry.objects.count() == 1
    assert Effect.objects.count() == 2


def test_find_address_fails_twice_and_then_succeeds(context, places):
    """The geocoder does not answer at first, and a failed attempt leaves no effect."""
    Tenant.objects.create(slug="dnipro", language="uk")
    for attempt in (1, 2):
        with pytest.raises(GeocoderUnavailable):
            find_address(context("dnipro", attempt=attempt), code="AD-07")
    assert not Effect.objects.exists()

    find_address(context("dnipro", attempt=3), code="AD-07")

    assert Address.objects.get().text == "Andorra la Vella, AD"
    assert Effect.objects.get().attempt == 3


def test_import_boundary_cannot_succeed(context, places):
    """A corrupt file stays corrupt."""
    with pytest.raises(BoundaryCorrupt):
        import_boundary(context("dnipro", attempt=3), code="AD-07", part=1)

    assert not Effect.objects.exists()
