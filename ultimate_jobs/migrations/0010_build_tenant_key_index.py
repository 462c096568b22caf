"""Build the unique index of live keys within a tenant, beside the one without the tenant.

Lock: SHARE UPDATE EXCLUSIVE, for as long as the build lasts. Nobody who reads or writes rows waits
for it. Not atomic. The index counts as built only when PostgreSQL calls it valid; the older one
stays until then, and backwards this one stays until the older one is valid again.
"""

from django.db import migrations, models
from django.db.models.functions import Coalesce

from ultimate_jobs.migrations._concurrent import BuildUnique


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("ultimate_jobs", "0009_build_claim_indexes")]

    operations = [
        BuildUnique(
            "job",
            models.UniqueConstraint(
                models.F("name"),
                Coalesce("tenant_id", models.Value("")),
                models.F("idempotency_key"),
                condition=models.Q(state__in=["ready", "delayed", "running", "suspended"]),
                name="x_jobs_name_tenant_idempotency_live_idx",
            ),
            succeeds="x_jobs_name_idempotency_live_idx",
        ),
    ]
