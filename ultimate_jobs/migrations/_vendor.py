"""The refusal of databases that these migrations cannot serve."""

from django.db import router
from django.db.migrations.operations.base import Operation

from ultimate_jobs.errors import DatabaseUnsupported


class RequirePostgreSQL(Operation):
    """Refuses any other database before the first table is made, not in the middle."""

    reversible = True

    def state_forwards(self, app_label, state):
        pass

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        connection = schema_editor.connection
        if not router.allow_migrate(connection.alias, app_label):
            return
        if connection.vendor != "postgresql":
            raise DatabaseUnsupported(alias=connection.alias, vendor=connection.vendor)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        pass

    def describe(self):
        return "Require PostgreSQL"
