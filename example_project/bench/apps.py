"""The app of the bench: its jobs, its command, and the table that its jobs write to."""

from __future__ import annotations

from django.apps import AppConfig


class BenchConfig(AppConfig):
    name = "example_project.bench"
    label = "bench"
    default_auto_field = "django.db.models.BigAutoField"
