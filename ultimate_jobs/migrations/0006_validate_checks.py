"""Hold the rows that were there before against the checks of 0004.

Lock: SHARE UPDATE EXCLUSIVE, for one read of each table. Nobody who reads or writes rows waits for
it; other schema changes and autovacuum of these tables do.
"""

from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("ultimate_jobs", "0005_normalise_jobs")]

    operations = [
        ValidateConstraint("job", "x_jobs_state_known"),
        ValidateConstraint("job", "x_jobs_priority_in_range"),
        ValidateConstraint("job", "x_jobs_counts_not_negative"),
        ValidateConstraint("job", "x_jobs_tenant_null_not_empty"),
        ValidateConstraint("jobstep", "x_job_steps_status_known"),
        ValidateConstraint("lease", "x_job_leases_kind_known"),
        ValidateConstraint("backfillpass", "x_backfills_status_known"),
    ]
