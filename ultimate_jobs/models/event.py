"""x_job_events: what a job's own row cannot tell."""

from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ultimate_jobs.sql import statement

RETENTION_FLOOR = "1 day"


class JobEvent(models.Model):
    """A failure, retry, rescue, park, cancel or operator's action; history, so never updated."""

    id = models.BigAutoField(primary_key=True)
    job_id = models.UUIDField()
    run_id = models.UUIDField()
    type = models.TextField()
    attempt = models.IntegerField(db_default=0)
    at = models.DateTimeField(db_default=Now())
    worker = models.UUIDField(null=True)
    detail = models.JSONField(db_default=models.Value({}, models.JSONField()))

    class Meta:
        db_table = "x_job_events"
        verbose_name = _("job event")
        verbose_name_plural = _("job events")
        default_permissions = ()
        indexes = [models.Index(fields=["job_id", "id"], name="x_job_events_job_idx")]
        triggers = [
            pgtrigger.Trigger(
                name="event_is_never_updated",
                operation=pgtrigger.Update,
                when=pgtrigger.Before,
                condition=pgtrigger.Condition("OLD.id IS NOT NULL"),
                func=statement("triggers.event_is_never_updated") + ";",
            ),
            pgtrigger.Trigger(
                name="event_is_kept",
                operation=pgtrigger.Delete,
                when=pgtrigger.Before,
                condition=pgtrigger.Condition(f"OLD.at > x_now() - interval '{RETENTION_FLOOR}'"),
                func=statement("triggers.event_is_kept") + ";",
            ),
        ]
