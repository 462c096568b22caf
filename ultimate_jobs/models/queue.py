"""x_job_queues: what an operator has said of a queue; a queue nobody spoke of has no row."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class Queue(models.Model):
    """A queue is claimed from unless ``paused_at`` is set."""

    name = models.TextField(primary_key=True)
    paused_at = models.DateTimeField(null=True)
    paused_by = models.TextField(null=True)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "x_job_queues"
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        default_permissions = ("view",)
