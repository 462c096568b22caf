"""x_job_steps and x_job_signals: what a run has done, and what was sent to it."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Coalesce, Now
from django.utils.translation import gettext_lazy as _

from ultimate_jobs.states import StepStatus


class JobStep(models.Model):
    """A named piece of a run; ``output`` is stored before the step returns."""

    id = models.BigAutoField(primary_key=True)
    job_id = models.UUIDField()
    run_id = models.UUIDField()
    name = models.TextField()
    nth = models.IntegerField(db_default=1)
    position = models.IntegerField()
    status = models.TextField()
    output = models.JSONField(null=True)
    error = models.JSONField(null=True)
    attempts = models.IntegerField(db_default=0)
    started_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)
    wake_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "x_job_steps"
        verbose_name = _("step")
        verbose_name_plural = _("steps")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["run_id", "name", "nth"], name="x_job_steps_once_per_run"
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=[status.value for status in StepStatus]),
                name="x_job_steps_status_known",
            ),
        ]


class JobSignal(models.Model):
    """A message to a waiting run, kept also if it comes before the wait."""

    id = models.BigAutoField(primary_key=True)
    tenant_id = models.TextField(null=True)
    name = models.TextField()
    key = models.TextField()
    payload = models.JSONField(null=True)
    sent_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True)
    consumed_by = models.UUIDField(null=True)
    consumed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "x_job_signals"
        verbose_name = _("signal")
        verbose_name_plural = _("signals")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                Coalesce("tenant_id", models.Value("")),
                "name",
                "key",
                name="x_job_signals_tenant_name_key",
            ),
        ]
