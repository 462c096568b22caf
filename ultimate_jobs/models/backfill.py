"""x_backfills: the ledger of passes, and the rows that a pass could not handle."""

from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ultimate_jobs.sql import statement
from ultimate_jobs.states import BACKFILL_FINAL, BackfillStatus, sql_list

BACKFILL_LIVE = (BackfillStatus.RUNNING, BackfillStatus.PAUSED)


class BackfillPass(models.Model):
    """One run of a backfill; read-only in the database once it has ended."""

    id = models.UUIDField(primary_key=True)
    run_id = models.UUIDField(null=True)
    name = models.TextField()
    environment = models.TextField(db_default="")
    status = models.TextField()
    checksum = models.TextField()
    app_version = models.TextField(db_default="")
    started_by = models.TextField(null=True)
    cursor = models.JSONField(null=True)
    upper_bound = models.JSONField(null=True)
    rows_processed = models.BigIntegerField(db_default=0)
    started_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "x_backfills"
        verbose_name = _("backfill pass")
        verbose_name_plural = _("backfill passes")
        default_permissions = ("view",)
        constraints = [
            models.CheckConstraint(
                condition=models.Q(status__in=[status.value for status in BackfillStatus]),
                name="x_backfills_status_known",
            ),
            models.UniqueConstraint(
                fields=["name"],
                condition=models.Q(status__in=[status.value for status in BACKFILL_LIVE]),
                name="x_backfills_one_live_pass",
            ),
        ]
        triggers = [
            pgtrigger.Trigger(
                name="finished_backfill_is_read_only",
                operation=pgtrigger.Update | pgtrigger.Delete,
                when=pgtrigger.Before,
                condition=pgtrigger.Condition(f"OLD.status IN ({sql_list(BACKFILL_FINAL)})"),
                func=statement("triggers.finished_backfill_is_read_only") + ";",
            ),
        ]


class BackfillError(models.Model):
    """A row that a pass could not handle, by its key."""

    id = models.BigAutoField(primary_key=True)
    pass_id = models.UUIDField()
    row_key = models.JSONField()
    error = models.TextField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "x_backfill_errors"
        verbose_name = _("backfill error")
        verbose_name_plural = _("backfill errors")
        default_permissions = ()
        indexes = [models.Index(fields=["pass_id", "id"], name="x_backfill_errors_pass_idx")]
