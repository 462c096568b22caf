"""Tell since when the waiting jobs of 3.0.0 are owed: since their run_at.

Lock: a row lock on at most 5000 live rows at a time, for one short statement each; locked rows are
passed over and come later. Finished rows are not touched: they keep the moment of 0003, which
nothing reads. Last, because until 0011 an app of 3.0.0 can still add such rows.
"""

import time

from django.db import migrations

BATCH = 5000
PATIENCE_SECONDS = 30.0

# Walks the index of live keys, never history. token = 0: no worker of this release has claimed it.
FILL = """
with batch as materialized (
    select id, name, coalesce(tenant_id, '') as tenant, idempotency_key
    from x_jobs
    where state in ('ready', 'delayed', 'running', 'suspended')
        and (name, coalesce(tenant_id, ''), idempotency_key) > (%s, %s, %s)
    order by name, coalesce(tenant_id, ''), idempotency_key
    limit %s
),
held as materialized (
    select j.id
    from x_jobs j
    join batch on batch.id = j.id
    where j.token = 0 and j.due_at <> j.run_at
        and j.state in ('ready', 'delayed', 'running', 'suspended')
    for no key update of j skip locked
),
written as (
    update x_jobs j set due_at = j.run_at from held where j.id = held.id
)
select name, tenant, idempotency_key
from batch
order by name desc, tenant desc, idempotency_key desc
limit 1
"""

UNFILLED = """
select exists (
    select from x_jobs
    where state in ('ready', 'delayed', 'running', 'suspended')
        and token = 0 and due_at <> run_at)
"""


def fill(apps, schema_editor):
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    with schema_editor.connection.cursor() as cursor:
        while True:
            _fill_once(cursor)
            cursor.execute(UNFILLED)
            # A row that stays locked keeps the moment of 0003: it is owed since then, not lost.
            if not cursor.fetchone()[0] or time.monotonic() > give_up_at:
                return
            time.sleep(0.2)


def _fill_once(cursor):
    after = ("", "", "")
    while after is not None:
        cursor.execute(FILL, [*after, BATCH])
        after = cursor.fetchone()


class Migration(migrations.Migration):
    # Not atomic: each batch commits.
    atomic = False

    dependencies = [("ultimate_jobs", "0011_drop_superseded_indexes")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop, elidable=True)]
