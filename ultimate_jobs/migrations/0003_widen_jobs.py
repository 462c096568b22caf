"""Give x_jobs the columns of this release, and add the tables that 3.0.0 had not.

Lock: ACCESS EXCLUSIVE on x_jobs, for milliseconds whatever its size. Every new column is NULL or
has a fast default: PostgreSQL keeps the value in the catalog and rewrites no row. Now() is
STATEMENT_TIMESTAMP(), which is stable and not volatile, so it is evaluated once, here, and it too
needs no rewrite. Dropping lease_until only marks it dropped in the catalog.
"""

from django.db import migrations, models
from django.db.models.functions import Coalesce, Now

from ultimate_jobs.migrations._locking import under_lock


class Migration(migrations.Migration):
    dependencies = [("ultimate_jobs", "0002_add_clock")]

    operations = [
        *under_lock(
            "ACCESS EXCLUSIVE",
            "Job",
            operations=[
                migrations.RemoveField("job", "lease_until"),
                migrations.AddField("job", "token", models.BigIntegerField(db_default=0)),
                migrations.AddField("job", "lost_leases", models.SmallIntegerField(db_default=0)),
                migrations.AddField("job", "deferrals", models.SmallIntegerField(db_default=0)),
                migrations.AddField("job", "serial_key", models.TextField(null=True)),
                migrations.AddField("job", "retry_count", models.IntegerField(db_default=0)),
                migrations.AddField("job", "due_at", models.DateTimeField(db_default=Now())),
                migrations.AddField("job", "claimed_at", models.DateTimeField(null=True)),
                migrations.AddField("job", "finished_at", models.DateTimeField(null=True)),
                migrations.AddField("job", "cancel_requested_at", models.DateTimeField(null=True)),
                migrations.AddField("job", "result", models.JSONField(null=True)),
                migrations.AddField("job", "rerun", models.JSONField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Queue",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False)),
                ("paused_at", models.DateTimeField(null=True)),
                ("paused_by", models.TextField(null=True)),
                ("updated_at", models.DateTimeField(db_default=Now())),
            ],
            options={
                "verbose_name": "queue",
                "verbose_name_plural": "queues",
                "db_table": "x_job_queues",
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="JobSignal",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("tenant_id", models.TextField(null=True)),
                ("name", models.TextField()),
                ("key", models.TextField()),
                ("payload", models.JSONField(null=True)),
                ("sent_at", models.DateTimeField(db_default=Now())),
                ("expires_at", models.DateTimeField(null=True)),
                ("consumed_by", models.UUIDField(null=True)),
                ("consumed_at", models.DateTimeField(null=True)),
            ],
            options={
                "verbose_name": "signal",
                "verbose_name_plural": "signals",
                "db_table": "x_job_signals",
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        Coalesce("tenant_id", models.Value("")),
                        models.F("name"),
                        models.F("key"),
                        name="x_job_signals_tenant_name_key",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SchedulerOccurrence",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("task", models.TextField()),
                ("nominal_at", models.DateTimeField()),
                ("job_id", models.UUIDField(null=True)),
                ("created_at", models.DateTimeField(db_default=Now())),
            ],
            options={
                "verbose_name": "task occurrence",
                "verbose_name_plural": "task occurrences",
                "db_table": "x_scheduler_occurrences",
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=["task", "nominal_at"], name="x_scheduler_occurrences_once"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="BackfillError",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("pass_id", models.UUIDField()),
                ("row_key", models.JSONField()),
                ("error", models.TextField()),
                ("created_at", models.DateTimeField(db_default=Now())),
            ],
            options={
                "verbose_name": "backfill error",
                "verbose_name_plural": "backfill errors",
                "db_table": "x_backfill_errors",
                "default_permissions": (),
                "indexes": [
                    models.Index(fields=["pass_id", "id"], name="x_backfill_errors_pass_idx")
                ],
            },
        ),
    ]
