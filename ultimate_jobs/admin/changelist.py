"""The list of jobs without what Django's counts and scans for."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.http import HttpRequest

from ultimate_jobs.admin.pages import Page, read_page
from ultimate_jobs.admin.readonly import queue_alias, why_nothing
from ultimate_jobs.admin.search import JobSearch

BEFORE = "before"


class JobChangeList(ChangeList):
    """Pages by id instead of by number, and finds by exact values instead of by patterns."""

    search: JobSearch
    page: Page
    nothing: str | None

    def get_filters_params(self, params: Any = None) -> dict[str, Any]:
        """Leave the fields of the search form out of what Django takes for lookups."""
        given: dict[str, Any] = super().get_filters_params(params)
        return {key: value for key, value in given.items() if key not in JobSearch.base_fields}

    def get_results(self, request: HttpRequest) -> None:
        self.search = JobSearch(request.GET)
        self.nothing = why_nothing()
        self.page = self._read_page()
        self.result_list = self.page.rows
        self.result_count = len(self.page.rows)
        self.full_result_count = None
        self.show_full_result_count = False
        self.show_admin_actions = bool(self.page.rows)
        self.can_show_all = self.multi_page = False
        self.paginator = Paginator(self.page.rows, self.list_per_page)

    @property
    def next_page(self) -> str | None:
        """The query string of the page that follows."""
        if self.page.before is None:
            return None
        return self.get_query_string({BEFORE: str(self.page.before)})

    @property
    def first_page(self) -> str | None:
        """The query string of the newest jobs, on any other page."""
        return self.get_query_string(remove=[BEFORE]) if BEFORE in self.params else None

    def _read_page(self) -> Page:
        if queue_alias() is None or not self.search.is_valid():
            return Page(rows=[], before=None, count=None, looked_through=None)
        return read_page(
            self.queryset,
            self.search.conditions(),
            before=self.search.cleaned_data.get(BEFORE),
            size=self.list_per_page,
        )
