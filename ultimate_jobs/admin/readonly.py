"""What every screen shares: it reads the queue's own database, and changes nothing."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import DateTimeField, Func, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.dateformat import format as date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.timezone import localtime

from ultimate_jobs.drivers import current_driver
from ultimate_jobs.errors import UltimateJobsError


class DatabaseNow(Func):
    """The clock that decides what is due; Python's may differ."""

    function = "x_now"
    arity = 0
    output_field = DateTimeField()


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A screen that shows rows to whoever may view them."""

    actions = None
    list_per_page = 100
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        title = capfirst(str(self.opts.verbose_name_plural))
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Pinned to the queue's alias, so that no router answers from a replica."""
        alias = queue_alias()
        rows: QuerySet[Any] = self.model._default_manager.all()
        return rows.none() if alias is None else rows.using(alias)


def time_tag(at: datetime) -> SafeString:
    """Return an instant to the second, in the site's time zone."""
    local = localtime(at)
    return format_html(
        '<time datetime="{}">{}</time>', local.isoformat(), date_format(local, "Y-m-d H:i:s")
    )


def queue_alias() -> str | None:
    """Return the database that holds the jobs; ``None`` where none does."""
    try:
        return current_driver().alias
    except UltimateJobsError:
        return None


def why_nothing() -> str | None:
    """Return why there is nothing to list, where no database holds the jobs."""
    try:
        driver = current_driver()
    except UltimateJobsError as error:
        return f"{error.code}: {error.cause}"
    if driver.alias is not None:
        return None
    return f"The driver {driver.name} keeps its jobs in each process, so there is nothing to list."
