"""The list of leases: which worker processes live, and what they hold."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ultimate_jobs.admin.readonly import DatabaseNow, ReadOnlyAdmin, time_tag
from ultimate_jobs.models import Lease
from ultimate_jobs.observe.plain import one_line

LONGEST_CELL = 120
LONGEST_LIST = 20_000


@admin.register(Lease)
class LeaseAdmin(ReadOnlyAdmin):
    """Leases, the oldest first; there are as many as processes and taken slots."""

    list_display = ("kind", "lease_name", "process", "queues", "acquired", "renewed", "valid")
    list_display_links = ("lease_name",)
    fields = readonly_fields = (*list_display[:4], "names", "holder", *list_display[4:])
    ordering = ("acquired_at", "id")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request).annotate(now=DatabaseNow())
        return rows

    @admin.display(description=_("name"))
    def lease_name(self, lease: Lease) -> str:
        return one_line(lease.name, limit=LONGEST_CELL)

    @admin.display(description=_("process"), empty_value="-")
    def process(self, lease: Lease) -> str | None:
        info = _info(lease)
        if "hostname" not in info:
            return None
        return one_line(f"{info['hostname']}:{info.get('pid', '?')}", limit=LONGEST_CELL)

    @admin.display(description=_("queues"), empty_value="-")
    def queues(self, lease: Lease) -> str | None:
        info = _info(lease)
        if "queues" in info and info["queues"] is None:
            return gettext("every one")
        return _joined(info.get("queues"))

    @admin.display(description=_("knows the names"), empty_value="-")
    def names(self, lease: Lease) -> str | None:
        return _joined(_info(lease).get("names"), limit=LONGEST_LIST)

    @admin.display(description=_("since"))
    def acquired(self, lease: Lease) -> str:
        return time_tag(lease.acquired_at)

    @admin.display(description=_("renewed"))
    def renewed(self, lease: Lease) -> str:
        return time_tag(lease.renewed_at)

    @admin.display(description=_("valid"), boolean=True)
    def valid(self, lease: Lease) -> bool:
        now: datetime = lease.__dict__["now"]
        return lease.expires_at > now


def _info(lease: Lease) -> dict[str, Any]:
    return lease.info if isinstance(lease.info, dict) else {}


def _joined(values: object, *, limit: int = LONGEST_CELL) -> str | None:
    if not isinstance(values, list):
        return None
    return one_line(", ".join(map(str, values)), limit=limit)
