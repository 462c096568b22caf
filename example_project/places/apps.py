"""The app of the example: places of the world, indexed for each tenant in its own language."""

from __future__ import annotations

from django.apps import AppConfig


class PlacesConfig(AppConfig):
    name = "example_project.places"
    label = "places"
    default_auto_field = "django.db.models.BigAutoField"
