"""Build the indexes that claims, wakes, rescues and the list of the dead walk.

Lock: SHARE UPDATE EXCLUSIVE, for as long as the builds last (each reads the table twice, and waits
for transactions that are older). Nobody who reads or writes rows waits for it. Not atomic: a build
that is interrupted leaves an invalid index, and running migrate again replaces it.
"""

from django.db import migrations, models
from django.db.models.functions import Coalesce, Collate

from ultimate_jobs.migrations._concurrent import BuildIndex


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("ultimate_jobs", "0008_protect_history")]

    operations = [
        BuildIndex(
            "job",
            models.Index(
                "queue",
                models.F("priority").desc(),
                Collate(Coalesce("tenant_id", models.Value("")), "C"),
                "due_at",
                "id",
                condition=models.Q(state="ready"),
                name="x_jobs_ready_idx",
            ),
        ),
        BuildIndex(
            "job",
            models.Index(
                fields=["queue", "-priority", "run_at", "id"],
                condition=models.Q(state__in=["delayed", "suspended"]),
                name="x_jobs_waiting_idx",
            ),
        ),
        BuildIndex(
            "job",
            models.Index(
                fields=["worker"],
                condition=models.Q(state="running"),
                name="x_jobs_running_idx",
            ),
        ),
        BuildIndex(
            "job",
            models.Index(
                fields=["queue", "id"],
                condition=models.Q(state="dead"),
                name="x_jobs_dead_idx",
            ),
        ),
        BuildIndex(
            "job",
            models.Index(
                fields=["serial_key", "created_at", "id"],
                condition=models.Q(
                    serial_key__isnull=False,
                    state__in=["ready", "delayed", "running", "suspended"],
                ),
                name="x_jobs_serial_idx",
            ),
        ),
    ]
