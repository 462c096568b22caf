"""The list of jobs, and the door to each one's page."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ultimate_jobs.admin.changelist import JobChangeList
from ultimate_jobs.admin.readonly import DatabaseNow, ReadOnlyAdmin, time_tag
from ultimate_jobs.admin.search import STATES
from ultimate_jobs.admin.trace import Trace, read_trace
from ultimate_jobs.models import Job
from ultimate_jobs.observe.plain import duration, one_line

LONGEST_CELL = 80

# Named, so that no column that can hold a megabyte is ever read for a list.
_LISTED = (
    "id",
    "state",
    "name",
    "queue",
    "tenant_id",
    "idempotency_key",
    "attempt",
    "max_attempts",
    "due_at",
    "created_at",
)


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    """Jobs, newest first."""

    list_display = (
        "job_name",
        "job_state",
        "job_queue",
        "job_tenant",
        "job_key",
        "tries",
        "due",
        "created",
        "age",
    )
    list_display_links = ("job_name",)
    ordering = ("-id",)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[JobChangeList]:
        return JobChangeList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        listed = super().get_queryset(request).only(*_LISTED)
        rows: QuerySet[Any] = listed.annotate(now=DatabaseNow())
        return rows

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Only what ``list_filter`` of a subclass names: any other lookup may scan the table."""
        named = {one[0] if isinstance(one, list | tuple) else one for one in self.list_filter}
        return lookup.split("__", 1)[0] in named

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """One job with all that is stored of it; nothing here is a form."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        found = read_trace(unquote(object_id))
        if found is None:
            return self._nowhere(request, object_id)
        if not self.has_view_permission(request, found.job):
            raise PermissionDenied
        request.current_app = self.admin_site.name
        return TemplateResponse(
            request,
            "admin/ultimate_jobs/job/change_form.html",
            {**self._context_of(request, found), **(extra_context or {})},
        )

    def _nowhere(self, request: HttpRequest, object_id: str) -> HttpResponse:
        text = gettext("There is no job %(id)s.") % {"id": one_line(object_id, limit=LONGEST_CELL)}
        self.message_user(request, text, messages.WARNING)
        return redirect(f"{self.admin_site.name}:ultimate_jobs_job_changelist")

    def _context_of(self, request: HttpRequest, found: Trace) -> dict[str, Any]:
        return {
            **self.admin_site.each_context(request),
            "title": one_line(found.job.name),
            "trace": found,
            "state": state_badge(found.job.state),
            "original": one_line(found.job.id),
            "opts": self.opts,
            "media": self.media,
            "change": True,
            "add": False,
            "is_popup": False,
            "has_view_permission": True,
        }

    @admin.display(description=_("name"))
    def job_name(self, job: Job) -> str:
        return one_line(job.name, limit=LONGEST_CELL)

    @admin.display(description=_("state"))
    def job_state(self, job: Job) -> SafeString:
        return state_badge(job.state)

    @admin.display(description=_("queue"))
    def job_queue(self, job: Job) -> str:
        return one_line(job.queue, limit=LONGEST_CELL)

    @admin.display(description=_("tenant"), empty_value="-")
    def job_tenant(self, job: Job) -> str | None:
        return None if job.tenant_id is None else one_line(job.tenant_id, limit=LONGEST_CELL)

    @admin.display(description=_("key"))
    def job_key(self, job: Job) -> str:
        return one_line(job.idempotency_key, limit=LONGEST_CELL)

    @admin.display(description=_("attempt"))
    def tries(self, job: Job) -> str:
        return _("%(attempt)d of %(most)d") % {"attempt": job.attempt, "most": job.max_attempts}

    @admin.display(description=_("due"))
    def due(self, job: Job) -> SafeString:
        return time_tag(job.due_at)

    @admin.display(description=_("created"))
    def created(self, job: Job) -> SafeString:
        return time_tag(job.created_at)

    @admin.display(description=_("age"))
    def age(self, job: Job) -> str:
        now: datetime = job.__dict__["now"]
        return duration((now - job.created_at).total_seconds())


def state_badge(state: str) -> SafeString:
    """Return a state as a label; one that this release does not know says so."""
    if state in STATES:
        return format_html('<span class="uj-state uj-{}">{}</span>', state, STATES[state])
    return format_html(
        '<span class="uj-state uj-unknown">{}</span> {}',
        one_line(state, limit=LONGEST_CELL),
        _("unknown to this release"),
    )
