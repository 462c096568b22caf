"""Add x_now(), the one SQL source of now.

Lock: none on any table; a new function. A moment.
"""

from django.db import migrations

from ultimate_jobs.sql import statement

DROP = "DROP FUNCTION IF EXISTS x_now()"


class Migration(migrations.Migration):
    dependencies = [("ultimate_jobs", "0001_initial")]

    # Tuples, so that Django neither splits the body nor looks for parameters in it.
    operations = [
        migrations.RunSQL(sql=[(statement("triggers.clock"), None)], reverse_sql=[(DROP, None)])
    ]
