"""The app: system checks, and discovery of each installed app's jobs.py."""

from __future__ import annotations

from importlib import import_module

# Lets models declare triggers even where it is not installed, so that a check can say so.
import pgtrigger.apps  # noqa: F401
from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _

from ultimate_jobs import conf
from ultimate_jobs.errors import SettingInvalid, SettingUnknown


class UltimateJobsConfig(AppConfig):
    """Wires the package into Django; touches no database."""

    name = "ultimate_jobs"
    label = "ultimate_jobs"
    verbose_name = _("Background jobs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the checks, then import ``jobs.py`` of every installed app.

        An error inside one surfaces. With wrong settings none is imported: declaring its jobs would
        only raise, as a traceback, what the check says in words.
        """
        # By path: checks look at models, which exist only now.
        import_module("ultimate_jobs.checks")
        if _settings_are_right():
            autodiscover_modules("jobs")


def _settings_are_right() -> bool:
    try:
        conf.settings()
    except (SettingUnknown, SettingInvalid):
        return False
    return True
