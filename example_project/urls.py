"""URLs of the example project: an index page and the admin."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from example_project.places.views import index

urlpatterns = [path("", index, name="index"), path("admin/", admin.site.urls)]
