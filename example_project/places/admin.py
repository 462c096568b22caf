"""The admin of the places: what the jobs read and what they wrote."""

from __future__ import annotations

from django.contrib import admin

from example_project.places.models import (
    Address,
    Effect,
    Request,
    SearchEntry,
    Subdivision,
    Tenant,
)


@admin.register(Tenant)
class TenantAdmin(admin.ModelAdmin):
    list_display = ["slug", "language", "run"]
    search_fields = ["slug"]


@admin.register(Subdivision)
class SubdivisionAdmin(admin.ModelAdmin):
    list_display = ["code", "name", "type", "country"]
    search_fields = ["code", "name"]


@admin.register(SearchEntry)
class SearchEntryAdmin(admin.ModelAdmin):
    list_display = ["subdivision", "name", "slug", "initials", "tenant"]
    list_filter = ["tenant"]
    list_select_related = ["subdivision"]
    search_fields = ["name", "folded"]
    autocomplete_fields = ["tenant", "subdivision"]


@admin.register(Address)
class AddressAdmin(admin.ModelAdmin):
    list_display = ["subdivision", "text", "tenant"]
    list_filter = ["tenant"]
    list_select_related = ["subdivision"]
    autocomplete_fields = ["tenant", "subdivision"]


class LedgerAdmin(admin.ModelAdmin):
    """Read-only: figures are recounted from these rows."""

    list_filter = ["kind", "tenant"]
    search_fields = ["subject", "job_id"]

    def has_add_permission(self, request, obj=None):
        return False

    def has_change_permission(self, request, obj=None):
        return False

    def has_delete_permission(self, request, obj=None):
        return False


@admin.register(Request)
class RequestAdmin(LedgerAdmin):
    list_display = ["job_id", "kind", "subject", "tenant_id", "accepted_at"]


@admin.register(Effect)
class EffectAdmin(LedgerAdmin):
    list_display = ["job_id", "kind", "subject", "tenant_id", "attempt", "at"]
