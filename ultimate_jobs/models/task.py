"""x_scheduler_*: who leads, how far each task was evaluated, and each occurrence for good."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class SchedulerLeader(models.Model):
    """An expiring row with a term; leading only spares work, the occurrence row decides."""

    name = models.TextField(primary_key=True)
    holder = models.UUIDField()
    term = models.BigIntegerField(db_default=1)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "x_scheduler_leader"
        verbose_name = _("scheduler leader")
        verbose_name_plural = _("scheduler leaders")
        default_permissions = ()


class SchedulerState(models.Model):
    """How far a task was evaluated; it survives the task's removal and return."""

    task = models.TextField(primary_key=True)
    expression = models.TextField(null=True)
    watermark = models.DateTimeField(null=True)
    paused_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "x_scheduler_state"
        verbose_name = _("task state")
        verbose_name_plural = _("task states")
        default_permissions = ("view",)


class SchedulerOccurrence(models.Model):
    """One nominal instant of a task, unique for good."""

    id = models.BigAutoField(primary_key=True)
    task = models.TextField()
    nominal_at = models.DateTimeField()
    job_id = models.UUIDField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "x_scheduler_occurrences"
        verbose_name = _("task occurrence")
        verbose_name_plural = _("task occurrences")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["task", "nominal_at"], name="x_scheduler_occurrences_once"
            ),
        ]
