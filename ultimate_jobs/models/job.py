"""x_jobs: one row per run, the hot table."""

from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models.functions import Coalesce, Collate, Now
from django.utils.translation import gettext_lazy as _

from ultimate_jobs.sql import statement
from ultimate_jobs.states import FINAL, LIVE, JobState, sql_list

LIVE_KEY_INDEX = "x_jobs_name_tenant_idempotency_live_idx"
SUPERSEDED_KEY_INDEXES = ("x_jobs_name_idempotency_live_idx", "x_jobs_idempotency_live_idx")


class Job(models.Model):
    """A run of a job across its attempts.

    ``run_at`` is "not before"; ``due_at`` is since when the run is owed. A shed moves only the
    first. ``(worker, token)`` is the claim that alone may write to a running row. Of the live runs
    with one ``serial_key`` only the oldest is claimed. ``deferrals`` counts the attempts that asked
    to be repeated later.
    """

    id = models.UUIDField(primary_key=True)
    run_id = models.UUIDField()
    name = models.TextField()
    queue = models.TextField()
    tenant_id = models.TextField(null=True)
    idempotency_key = models.TextField()
    serial_key = models.TextField(null=True)
    payload = models.JSONField()
    result = models.JSONField(null=True)
    rerun = models.JSONField(null=True)
    state = models.TextField()
    priority = models.SmallIntegerField(db_default=0)
    attempt = models.IntegerField(db_default=0)
    max_attempts = models.IntegerField(db_default=1)
    lost_leases = models.SmallIntegerField(db_default=0)
    deferrals = models.SmallIntegerField(db_default=0)
    retry_count = models.IntegerField(db_default=0)
    worker = models.UUIDField(null=True)
    token = models.BigIntegerField(db_default=0)
    run_at = models.DateTimeField(db_default=Now())
    due_at = models.DateTimeField(db_default=Now())
    claimed_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    last_error = models.TextField(null=True)
    enqueued_by = models.TextField(null=True)
    traceparent = models.TextField(null=True)

    class Meta:
        db_table = "x_jobs"
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                "name",
                Coalesce("tenant_id", models.Value("")),
                "idempotency_key",
                condition=models.Q(state__in=[state.value for state in LIVE]),
                name=LIVE_KEY_INDEX,
            ),
            models.CheckConstraint(
                condition=models.Q(state__in=[state.value for state in JobState]),
                name="x_jobs_state_known",
            ),
            models.CheckConstraint(
                condition=models.Q(priority__gte=-100, priority__lte=100),
                name="x_jobs_priority_in_range",
            ),
            models.CheckConstraint(
                condition=models.Q(
                    attempt__gte=0, lost_leases__gte=0, deferrals__gte=0, token__gte=0
                ),
                name="x_jobs_counts_not_negative",
            ),
            models.CheckConstraint(
                condition=~models.Q(tenant_id=""), name="x_jobs_tenant_null_not_empty"
            ),
        ]
        indexes = [
            # By tenant before due time: claims rotate between tenants, each in its own order.
            models.Index(
                "queue",
                models.F("priority").desc(),
                Collate(Coalesce("tenant_id", models.Value("")), "C"),
                "due_at",
                "id",
                condition=models.Q(state=JobState.READY.value),
                name="x_jobs_ready_idx",
            ),
            models.Index(
                fields=["queue", "-priority", "run_at", "id"],
                condition=models.Q(state__in=[JobState.DELAYED.value, JobState.SUSPENDED.value]),
                name="x_jobs_waiting_idx",
            ),
            models.Index(
                fields=["worker"],
                condition=models.Q(state=JobState.RUNNING.value),
                name="x_jobs_running_idx",
            ),
            models.Index(
                fields=["queue", "id"],
                condition=models.Q(state=JobState.DEAD.value),
                name="x_jobs_dead_idx",
            ),
            models.Index(
                fields=["serial_key", "created_at", "id"],
                condition=models.Q(
                    serial_key__isnull=False, state__in=[state.value for state in LIVE]
                ),
                name="x_jobs_serial_idx",
            ),
        ]
        # AFTER triggers: a BEFORE ROW trigger locks each row before its WHEN clause is asked.
        triggers = [
            pgtrigger.Trigger(
                name="final_job_stays_final",
                operation=pgtrigger.Update,
                when=pgtrigger.After,
                condition=pgtrigger.Condition(
                    f"OLD.state IN ({sql_list(FINAL)}) AND NEW.state IN ({sql_list(LIVE)})"
                    " AND NEW.retry_count <= OLD.retry_count"
                ),
                func=statement("triggers.final_job_stays_final") + ";",
            ),
            pgtrigger.Trigger(
                name="run_again",
                operation=pgtrigger.Update,
                when=pgtrigger.After,
                condition=pgtrigger.Condition(
                    f"NEW.rerun IS NOT NULL AND OLD.state IN ({sql_list(LIVE)})"
                    f" AND NEW.state IN ({sql_list(FINAL)})"
                ),
                func=statement("triggers.run_again") + ";",
            ),
        ]
