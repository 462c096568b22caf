"""Refuse unknown states and impossible numbers in whatever is written from now on.

Lock: ACCESS EXCLUSIVE on four tables, for milliseconds: NOT VALID looks at no row that is there.
0006 looks at them, in a transaction of its own, because this lock would last as long as the scan.
"""

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

from ultimate_jobs.migrations._locking import under_lock


class Migration(migrations.Migration):
    dependencies = [("ultimate_jobs", "0003_widen_jobs")]

    operations = under_lock(
        "ACCESS EXCLUSIVE",
        "Job",
        "JobStep",
        "Lease",
        "BackfillPass",
        operations=[
            AddConstraintNotValid(
                "job",
                models.CheckConstraint(
                    condition=models.Q(
                        state__in=[
                            "ready",
                            "delayed",
                            "running",
                            "suspended",
                            "completed",
                            "dead",
                            "cancelled",
                        ]
                    ),
                    name="x_jobs_state_known",
                ),
            ),
            AddConstraintNotValid(
                "job",
                models.CheckConstraint(
                    condition=models.Q(priority__gte=-100, priority__lte=100),
                    name="x_jobs_priority_in_range",
                ),
            ),
            AddConstraintNotValid(
                "job",
                models.CheckConstraint(
                    condition=models.Q(
                        attempt__gte=0, lost_leases__gte=0, deferrals__gte=0, token__gte=0
                    ),
                    name="x_jobs_counts_not_negative",
                ),
            ),
            AddConstraintNotValid(
                "job",
                models.CheckConstraint(
                    condition=~models.Q(tenant_id=""), name="x_jobs_tenant_null_not_empty"
                ),
            ),
            AddConstraintNotValid(
                "jobstep",
                models.CheckConstraint(
                    condition=models.Q(status__in=["completed", "failed", "sleeping", "waiting"]),
                    name="x_job_steps_status_known",
                ),
            ),
            AddConstraintNotValid(
                "lease",
                models.CheckConstraint(
                    condition=models.Q(kind__in=("worker", "slot", "named")),
                    name="x_job_leases_kind_known",
                ),
            ),
            AddConstraintNotValid(
                "backfillpass",
                models.CheckConstraint(
                    condition=models.Q(
                        status__in=["running", "paused", "completed", "failed", "cancelled"]
                    ),
                    name="x_backfills_status_known",
                ),
            ),
        ],
    )
