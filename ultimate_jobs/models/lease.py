"""x_job_leases: every right that expires."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

LEASE_KINDS = ("worker", "slot", "named")


class Lease(models.Model):
    """One worker process, one taken limit slot, or one lease an app holds by name.

    ``holder`` is the worker's UUID, so that one heartbeat renews everything a process holds.
    """

    id = models.BigAutoField(primary_key=True)
    kind = models.TextField()
    name = models.TextField()
    slot = models.IntegerField(db_default=0)
    holder = models.UUIDField()
    token = models.BigIntegerField(db_default=1)
    acquired_at = models.DateTimeField(db_default=Now())
    renewed_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    info = models.JSONField(db_default=models.Value({}, models.JSONField()))

    class Meta:
        db_table = "x_job_leases"
        verbose_name = _("lease")
        verbose_name_plural = _("leases")
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "name", "slot"], name="x_job_leases_right_taken_once"
            ),
            models.CheckConstraint(
                condition=models.Q(kind__in=LEASE_KINDS), name="x_job_leases_kind_known"
            ),
        ]
        indexes = [models.Index(fields=["holder"], name="x_job_leases_holder_idx")]
