"""The index page: what this project is, and where to look."""

from __future__ import annotations

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from example_project.places.models import Subdivision, Tenant


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Show each tenant with what its jobs made."""
    tenants = Tenant.objects.annotate(searchable=Count("entries")).order_by("slug")
    places = Subdivision.objects.count()
    return render(request, "places/index.html", {"tenants": tenants, "places": places})
