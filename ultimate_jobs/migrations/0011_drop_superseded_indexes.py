"""Drop the indexes that this release replaces, once the new ones are known to be valid.

Lock: SHARE UPDATE EXCLUSIVE for an instant each, after transactions that are older have ended.
Nobody who reads or writes rows waits for it. Not atomic.

Backwards first refuses, and changes nothing, where two tenants hold one (name, key): the index of
3.0.0 cannot hold both. Then it builds the old indexes concurrently, as 0009 and 0010 do.
"""

from django.db import migrations

from ultimate_jobs.migrations._concurrent import DropIndex, DropStray, DropUnique, RefuseSharedKeys

NEW = "x_jobs_name_tenant_idempotency_live_idx"


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("ultimate_jobs", "0010_build_tenant_key_index")]

    # Backwards reads this from the end: refuse, then the unique index, then the claim index.
    operations = [
        DropIndex("job", "x_jobs_claim_idx"),
        # Older than 3.0.0, on the key alone; Django never knew it.
        DropStray("job", "x_jobs_idempotency_live_idx", succeeded_by=NEW),
        DropUnique("job", "x_jobs_name_idempotency_live_idx", succeeded_by=NEW),
        RefuseSharedKeys("job"),
    ]
