"""The app: system checks, and discovery of each installed app's jobs.py."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class UltimateJobsConfig(AppConfig):
    """Wires the package into Django; touches no database."""

    name = "ultimate_jobs"
    label = "ultimate_jobs"
    verbose_name = _("Background jobs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import ``jobs.py`` of every installed app; an error inside one surfaces."""
        autodiscover_modules("jobs")
