"""Bring the rows of 3.0.0 within the checks: '' tenants to NULL, numbers into their range.

Lock: a row lock on each row that is out of range, for one short statement each 4 MiB of the table;
usually there is none and the table is only read. Nothing to undo: '' and NULL are one namespace.
"""

from django.db import migrations

# Found through the table's own order, so that the whole pass reads each page once.
PAGES = 512

NORMALISE = """
update x_jobs
set tenant_id = nullif(tenant_id, ''), priority = greatest(-100, least(100, priority)),
    attempt = greatest(attempt, 0)
where ctid >= %s::tid and ctid < %s::tid
    and (tenant_id = '' or priority not between -100 and 100 or attempt < 0)
"""


def normalise(apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("select pg_relation_size('x_jobs') / current_setting('block_size')::bigint")
        # Rows written after this moment are in range: 0004 sees to it.
        (pages,) = cursor.fetchone()
        for first in range(0, pages, PAGES):
            cursor.execute(NORMALISE, [f"({first},0)", f"({first + PAGES},0)"])


class Migration(migrations.Migration):
    # Not atomic: each batch commits, so that no row stays locked while the rest is read.
    atomic = False

    dependencies = [("ultimate_jobs", "0004_check_states")]

    operations = [migrations.RunPython(normalise, migrations.RunPython.noop, elidable=True)]
