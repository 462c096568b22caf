"""Leave room for updates on the page, and vacuum the hot tables early.

Lock: SHARE UPDATE EXCLUSIVE, for milliseconds: only the catalog changes. Nobody who reads or writes
rows waits for it. Pages written before keep their filling until they are written anew.
"""

from django.db import migrations

from ultimate_jobs.migrations._storage import SetStorage


class Migration(migrations.Migration):
    dependencies = [("ultimate_jobs", "0006_validate_checks")]

    operations = [
        # A run is three versions of one row, and no fillfactor makes them heap-only, because state
        # is in the predicates of the indexes. With room the next version lands on the same page:
        # measured at 70 against 100, a seventh less WAL, for three tenths more history on disk.
        # The default vacuum threshold, a fifth of the table, counts history: at ten million
        # finished rows, two million dead entries would lie between a claim and its job.
        SetStorage(
            "Job",
            fillfactor=70,
            autovacuum_vacuum_scale_factor=0.01,
            autovacuum_vacuum_threshold=2000,
            autovacuum_vacuum_cost_limit=1000,
            autovacuum_analyze_scale_factor=0.02,
            autovacuum_analyze_threshold=2000,
        ),
        # A heartbeat changes no indexed column, so with room it is heap-only: no index entry, and
        # the page prunes itself. The table is one row per process; it is never large.
        SetStorage(
            "Lease",
            fillfactor=80,
            autovacuum_vacuum_scale_factor=0,
            autovacuum_vacuum_threshold=500,
        ),
        # A relay's claim is heap-only where there is room; the stamp is not, and its dead entry
        # lies in front of what is still to publish. At 70, a quarter less WAL than at 100.
        SetStorage(
            "OutboxMessage",
            fillfactor=70,
            autovacuum_vacuum_scale_factor=0.01,
            autovacuum_vacuum_threshold=1000,
        ),
    ]
