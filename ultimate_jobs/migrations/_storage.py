"""The operation that sets a table's storage parameters."""

from django.db.migrations.operations.base import Operation


class SetStorage(Operation):
    """Sets fillfactor and autovacuum parameters; backwards resets them to the server's."""

    reversible = True

    def __init__(self, model_name, **parameters):
        self.model_name = model_name
        self.parameters = parameters

    def deconstruct(self):
        return self.__class__.__name__, [self.model_name], self.parameters

    def state_forwards(self, app_label, state):
        pass

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        values = ", ".join(f"{name} = {value}" for name, value in self.parameters.items())
        self._alter(
            schema_editor, to_state.apps.get_model(app_label, self.model_name), "SET", values
        )

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        names = ", ".join(self.parameters)
        self._alter(
            schema_editor, to_state.apps.get_model(app_label, self.model_name), "RESET", names
        )

    def _alter(self, schema_editor, model, verb, inside):
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            table = schema_editor.quote_name(model._meta.db_table)
            schema_editor.execute(f"ALTER TABLE {table} {verb} ({inside})")

    def describe(self):
        return f"Set storage parameters of {self.model_name}"
