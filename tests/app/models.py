"""What jobs of the tests leave behind, so that SQL can recount it."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class Effect(models.Model):
    """One execution of a body."""

    job_id = models.UUIDField(db_index=True)
    label = models.TextField()
    seen = models.TextField(db_default="")
    attempt = models.IntegerField(db_default=0)
    pid = models.IntegerField(db_default=0)
    started_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)


class Document(models.Model):
    """Data that callers change before they enqueue."""

    name = models.TextField(unique=True)
    version = models.IntegerField(db_default=0)
