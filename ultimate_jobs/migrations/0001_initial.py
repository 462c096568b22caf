"""The schema of 3.0.0, as it shipped; later files lead from there to today.

Lock: none that anybody waits for, because every table is new. A moment.
"""

from django.db import migrations, models
from django.db.models.functions import Now

from ultimate_jobs.migrations._vendor import RequirePostgreSQL

LIVE = models.Q(state__in=["ready", "delayed", "running", "suspended"])


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        RequirePostgreSQL(),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("run_id", models.UUIDField()),
                ("name", models.TextField()),
                ("queue", models.TextField()),
                ("tenant_id", models.TextField(null=True)),
                ("idempotency_key", models.TextField()),
                ("payload", models.JSONField()),
                ("state", models.TextField()),
                ("priority", models.SmallIntegerField(db_default=0)),
                ("attempt", models.IntegerField(db_default=0)),
                ("max_attempts", models.IntegerField(db_default=1)),
                ("worker", models.UUIDField(null=True)),
                ("lease_until", models.DateTimeField(null=True)),
                ("run_at", models.DateTimeField(db_default=Now())),
                ("created_at", models.DateTimeField(db_default=Now())),
                ("updated_at", models.DateTimeField(db_default=Now())),
                ("last_error", models.TextField(null=True)),
                ("enqueued_by", models.TextField(null=True)),
                ("traceparent", models.TextField(null=True)),
            ],
            options={
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
                "db_table": "x_jobs",
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=["name", "idempotency_key"],
                        condition=LIVE,
                        name="x_jobs_name_idempotency_live_idx",
                    ),
                ],
                "indexes": [
                    models.Index(
                        fields=["queue", "-priority", "run_at", "id"],
                        condition=models.Q(state="ready"),
                        name="x_jobs_claim_idx",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="JobStep",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("job_id", models.UUIDField()),
                ("run_id", models.UUIDField()),
                ("name", models.TextField()),
                ("nth", models.IntegerField(db_default=1)),
                ("position", models.IntegerField()),
                ("status", models.TextField()),
                ("output", models.JSONField(null=True)),
                ("error", models.JSONField(null=True)),
                ("attempts", models.IntegerField(db_default=0)),
                ("started_at", models.DateTimeField(db_default=Now())),
                ("finished_at", models.DateTimeField(null=True)),
                ("wake_at", models.DateTimeField(null=True)),
            ],
            options={
                "verbose_name": "step",
                "verbose_name_plural": "steps",
                "db_table": "x_job_steps",
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=["run_id", "name", "nth"], name="x_job_steps_once_per_run"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="JobEvent",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("job_id", models.UUIDField()),
                ("run_id", models.UUIDField()),
                ("type", models.TextField()),
                ("attempt", models.IntegerField(db_default=0)),
                ("at", models.DateTimeField(db_default=Now())),
                ("worker", models.UUIDField(null=True)),
                ("detail", models.JSONField(db_default=models.Value({}, models.JSONField()))),
            ],
            options={
                "verbose_name": "job event",
                "verbose_name_plural": "job events",
                "db_table": "x_job_events",
                "default_permissions": (),
                "indexes": [models.Index(fields=["job_id", "id"], name="x_job_events_job_idx")],
            },
        ),
        migrations.CreateModel(
            name="Lease",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("kind", models.TextField()),
                ("name", models.TextField()),
                ("slot", models.IntegerField(db_default=0)),
                ("holder", models.UUIDField()),
                ("token", models.BigIntegerField(db_default=1)),
                ("acquired_at", models.DateTimeField(db_default=Now())),
                ("renewed_at", models.DateTimeField(db_default=Now())),
                ("expires_at", models.DateTimeField()),
                ("info", models.JSONField(db_default=models.Value({}, models.JSONField()))),
            ],
            options={
                "verbose_name": "lease",
                "verbose_name_plural": "leases",
                "db_table": "x_job_leases",
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=["kind", "name", "slot"], name="x_job_leases_right_taken_once"
                    ),
                ],
                "indexes": [models.Index(fields=["holder"], name="x_job_leases_holder_idx")],
            },
        ),
        migrations.CreateModel(
            name="OutboxMessage",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("message_id", models.UUIDField(unique=True)),
                ("topic", models.TextField()),
                ("key", models.TextField(null=True)),
                ("tenant_id", models.TextField(null=True)),
                ("payload", models.JSONField()),
                ("headers", models.JSONField(db_default=models.Value({}, models.JSONField()))),
                ("attempts", models.IntegerField(db_default=0)),
                ("last_error", models.TextField(null=True)),
                ("claimed_by", models.UUIDField(null=True)),
                ("claimed_until", models.DateTimeField(null=True)),
                ("staged_at", models.DateTimeField(db_default=Now())),
                ("published_at", models.DateTimeField(null=True)),
                ("set_aside_at", models.DateTimeField(null=True)),
            ],
            options={
                "verbose_name": "outbox message",
                "verbose_name_plural": "outbox messages",
                "db_table": "x_outbox",
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(
                        fields=["staged_at", "id"],
                        condition=models.Q(published_at__isnull=True, set_aside_at__isnull=True),
                        name="x_outbox_unpublished_idx",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SchedulerLeader",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False)),
                ("holder", models.UUIDField()),
                ("term", models.BigIntegerField(db_default=1)),
                ("expires_at", models.DateTimeField()),
            ],
            options={
                "verbose_name": "scheduler leader",
                "verbose_name_plural": "scheduler leaders",
                "db_table": "x_scheduler_leader",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="SchedulerState",
            fields=[
                ("task", models.TextField(primary_key=True, serialize=False)),
                ("expression", models.TextField(null=True)),
                ("watermark", models.DateTimeField(null=True)),
                ("paused_at", models.DateTimeField(null=True)),
                ("updated_at", models.DateTimeField(db_default=Now())),
            ],
            options={
                "verbose_name": "task state",
                "verbose_name_plural": "task states",
                "db_table": "x_scheduler_state",
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="BackfillPass",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("run_id", models.UUIDField(null=True)),
                ("name", models.TextField()),
                ("environment", models.TextField(db_default="")),
                ("status", models.TextField()),
                ("checksum", models.TextField()),
                ("app_version", models.TextField(db_default="")),
                ("started_by", models.TextField(null=True)),
                ("cursor", models.JSONField(null=True)),
                ("upper_bound", models.JSONField(null=True)),
                ("rows_processed", models.BigIntegerField(db_default=0)),
                ("started_at", models.DateTimeField(db_default=Now())),
                ("updated_at", models.DateTimeField(db_default=Now())),
                ("finished_at", models.DateTimeField(null=True)),
            ],
            options={
                "verbose_name": "backfill pass",
                "verbose_name_plural": "backfill passes",
                "db_table": "x_backfills",
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=["name"],
                        condition=models.Q(status__in=["running", "paused"]),
                        name="x_backfills_one_live_pass",
                    ),
                ],
            },
        ),
    ]
