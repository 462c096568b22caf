"""The list of what was said of queues: which are paused, since when, and by whom."""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from ultimate_jobs.admin.readonly import ReadOnlyAdmin, time_tag
from ultimate_jobs.models import Queue
from ultimate_jobs.observe.plain import one_line

LONGEST_CELL = 120


@admin.register(Queue)
class QueueAdmin(ReadOnlyAdmin):
    """Queues that were paused at some time, by name; a queue nobody spoke of has no row."""

    list_display = ("queue_name", "is_paused", "since", "by")
    fields = readonly_fields = list_display
    ordering = ("name",)

    @admin.display(description=_("name"))
    def queue_name(self, queue: Queue) -> str:
        return one_line(queue.name, limit=LONGEST_CELL)

    @admin.display(description=_("paused"), boolean=True)
    def is_paused(self, queue: Queue) -> bool:
        return queue.paused_at is not None

    @admin.display(description=_("since"), empty_value="-")
    def since(self, queue: Queue) -> str | None:
        return None if queue.paused_at is None else time_tag(queue.paused_at)

    @admin.display(description=_("by"), empty_value="-")
    def by(self, queue: Queue) -> str | None:
        return None if queue.paused_by is None else one_line(queue.paused_by, limit=LONGEST_CELL)
