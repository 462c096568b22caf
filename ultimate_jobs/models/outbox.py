"""x_outbox: messages staged inside the app's transaction."""

from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ultimate_jobs.sql import statement


class OutboxMessage(models.Model):
    """A message; consumers dedupe by ``message_id``, relays go in (staged_at, id) order."""

    id = models.BigAutoField(primary_key=True)
    message_id = models.UUIDField(unique=True)
    topic = models.TextField()
    key = models.TextField(null=True)
    tenant_id = models.TextField(null=True)
    payload = models.JSONField()
    headers = models.JSONField(db_default=models.Value({}, models.JSONField()))
    attempts = models.IntegerField(db_default=0)
    last_error = models.TextField(null=True)
    claimed_by = models.UUIDField(null=True)
    claimed_until = models.DateTimeField(null=True)
    staged_at = models.DateTimeField(db_default=Now())
    published_at = models.DateTimeField(null=True)
    set_aside_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "x_outbox"
        verbose_name = _("outbox message")
        verbose_name_plural = _("outbox messages")
        default_permissions = ("view",)
        indexes = [
            models.Index(
                fields=["staged_at", "id"],
                condition=models.Q(published_at__isnull=True, set_aside_at__isnull=True),
                name="x_outbox_unpublished_idx",
            ),
        ]
        triggers = [
            pgtrigger.Trigger(
                name="published_at_is_written_once",
                operation=pgtrigger.Update,
                when=pgtrigger.After,
                condition=pgtrigger.Condition(
                    "OLD.published_at IS NOT NULL"
                    " AND NEW.published_at IS DISTINCT FROM OLD.published_at"
                ),
                func=statement("triggers.published_at_is_written_once") + ";",
            ),
        ]
