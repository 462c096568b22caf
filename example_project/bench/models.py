"""What a measured body writes, and what the raw ceiling writes in its place."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class Insertion(models.Model):
    """One row for each body of ``bench.insert``."""

    job_id = models.UUIDField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.job_id)
