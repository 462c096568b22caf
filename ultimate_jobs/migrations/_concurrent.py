"""Indexes built and dropped while the app writes, each verified before the next step leans on it.

Django's own concurrent operations stop at an invalid leftover, and count a build as done once its
statement returns. These replace the leftover and ask PostgreSQL whether the index is valid.
"""

import time
from contextlib import contextmanager, suppress

from django.db import DatabaseError, IntegrityError, InterfaceError, NotSupportedError, transaction
from django.db.migrations import AddConstraint, AddIndex, RemoveConstraint, RemoveIndex
from django.db.migrations.operations.base import Operation

from ultimate_jobs.errors import MigrationIndexRefused, MigrationKeysShared

# One migrate at a time in these operations: of two, the second would take the first's unfinished
# build for a leftover, and drop it after the first has dropped its predecessor.
ADVISORY_LOCK = 7_411_020_026
LISTED = 20

# "shape" is all of the definition but the two names, and storage options, which are the operator's.
DESCRIBE = """
select c.oid::regclass::text, i.indisvalid and i.indisready and i.indislive, i.indisunique,
    regexp_replace(
        substring(pg_get_indexdef(i.indexrelid) from ' USING (.*)$'), ' WITH \\([^)]*\\)', '')
from pg_index i
join pg_class c on c.oid = i.indexrelid
where i.indrelid = %s::regclass and c.relname = %s
"""

SHARED_KEYS = """
select name, idempotency_key, array_agg(coalesce(tenant_id, '') order by tenant_id nulls first),
    count(*) over ()
from x_jobs
where state in ('ready', 'delayed', 'running', 'suspended')
group by name, idempotency_key
having count(*) > 1
order by name, idempotency_key
limit %s
"""

DUPLICATES = (
    "select name, tenant_id, idempotency_key, array_agg(id) from x_jobs"
    " where state in ('ready', 'delayed', 'running', 'suspended')"
    " group by 1, 2, 3 having count(*) > 1"
)


class _Alone:
    """What every operation here shares: no transaction around it, and one migrate at a time."""

    atomic = False

    @contextmanager
    def _alone(self, schema_editor):
        connection = schema_editor.connection
        if schema_editor.collect_sql:
            yield
            return
        if connection.in_atomic_block:
            raise NotSupportedError(
                f"{type(self).__name__} cannot run inside a transaction "
                "(set atomic = False on the migration)."
            )
        with _patient(connection), connection.cursor() as cursor:
            _take_advisory_lock(cursor)
            try:
                yield
            finally:
                # A session that is gone has given it back already.
                with suppress(DatabaseError, InterfaceError):
                    cursor.execute("select pg_advisory_unlock(%s)", [ADVISORY_LOCK])


class BuildIndex(_Alone, AddIndex):
    """Builds an index concurrently; backwards drops it concurrently."""

    def describe(self):
        return f"Concurrently build index {self.index.name} on model {self.model_name}"

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        model = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            with self._alone(schema_editor):
                _build(schema_editor, model, self.index)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        model = from_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            with self._alone(schema_editor):
                _drop(schema_editor, model, self.index.name)


class BuildUnique(_Alone, AddConstraint):
    """Builds a unique index concurrently; backwards drops it once its predecessor is valid."""

    def __init__(self, model_name, constraint, *, succeeds):
        super().__init__(model_name, constraint)
        self.succeeds = succeeds

    def deconstruct(self):
        name, args, kwargs = super().deconstruct()
        return name, args, {**kwargs, "succeeds": self.succeeds}

    def describe(self):
        return f"Concurrently build unique index {self.constraint.name} on model {self.model_name}"

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        model = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            with self._alone(schema_editor):
                _build_successor(schema_editor, model, self.constraint)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        model = from_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            predecessor = _constraint(to_state, app_label, self.model_name, self.succeeds)
            with self._alone(schema_editor):
                # There already, and then only verified, unless somebody broke it in between.
                _build_predecessor(schema_editor, model, predecessor)
                _drop(schema_editor, model, self.constraint.name)


class DropIndex(_Alone, RemoveIndex):
    """Drops an index concurrently; backwards builds it concurrently."""

    def describe(self):
        return f"Concurrently drop index {self.name} of model {self.model_name}"

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        model = from_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            with self._alone(schema_editor):
                _drop(schema_editor, model, self.name)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        model = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            index = to_state.models[app_label, self.model_name_lower].get_index_by_name(self.name)
            with self._alone(schema_editor):
                _build(schema_editor, model, index)


class DropUnique(_Alone, RemoveConstraint):
    """Drops a unique index concurrently once its successor is valid; backwards builds it again."""

    def __init__(self, model_name, name, *, succeeded_by):
        super().__init__(model_name, name)
        self.succeeded_by = succeeded_by

    def deconstruct(self):
        name, args, kwargs = super().deconstruct()
        return name, args, {**kwargs, "succeeded_by": self.succeeded_by}

    def describe(self):
        return f"Concurrently drop unique index {self.name} of model {self.model_name}"

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        _replace(self, app_label, schema_editor, from_state)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        model = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            predecessor = _constraint(to_state, app_label, self.model_name, self.name)
            with self._alone(schema_editor):
                _build_predecessor(schema_editor, model, predecessor)


class DropStray(_Alone, Operation):
    """Drops an index that some databases hold and no model ever knew; backwards leaves it be."""

    reversible = True

    def __init__(self, model_name, name, *, succeeded_by):
        self.model_name = model_name
        self.name = name
        self.succeeded_by = succeeded_by

    def deconstruct(self):
        return (
            self.__class__.__name__,
            [self.model_name, self.name],
            {"succeeded_by": self.succeeded_by},
        )

    def describe(self):
        return f"Concurrently drop index {self.name}, if it is there"

    def state_forwards(self, app_label, state):
        pass

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        _replace(self, app_label, schema_editor, from_state)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        pass


class RefuseSharedKeys(Operation):
    """Backwards: refuses where two tenants hold one (name, key), before anything is changed."""

    reversible = True
    atomic = False

    def __init__(self, model_name):
        self.model_name = model_name

    def deconstruct(self):
        return self.__class__.__name__, [self.model_name], {}

    def describe(self):
        return "Refuse to go back while two tenants share a key"

    def state_forwards(self, app_label, state):
        pass

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        pass

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        model = to_state.apps.get_model(app_label, self.model_name)
        if schema_editor.collect_sql or not self.allow_migrate_model(
            schema_editor.connection.alias, model
        ):
            return
        refusal = _shared_keys(schema_editor)
        if refusal.total:
            raise refusal


@contextmanager
def _patient(connection):
    """Lifts the session's timeouts: a concurrent build makes nobody wait, however long it waits."""
    names = ("lock_timeout", "statement_timeout")
    with connection.cursor() as cursor:
        cursor.execute("select current_setting(%s), current_setting(%s)", names)
        before = dict(zip(names, cursor.fetchone(), strict=True))
        try:
            _set_all(cursor, dict.fromkeys(names, "0"))
            yield
        finally:
            with suppress(DatabaseError, InterfaceError):
                _set_all(cursor, before)


def _set_all(cursor, values):
    for name, value in values.items():
        cursor.execute("select set_config(%s, %s, false)", [name, value])


def _take_advisory_lock(cursor):
    # Asked again and again, never waited for: a session that waits inside a statement holds a
    # snapshot, and the other's concurrent build would wait for that.
    while True:
        cursor.execute("select pg_try_advisory_lock(%s)", [ADVISORY_LOCK])
        if cursor.fetchone()[0]:
            return
        time.sleep(0.1)


def _create_sql(schema_editor, model, index):
    # No parameters: both forms come interpolated.
    create = str(index.create_sql(model, schema_editor))
    kind = "CREATE UNIQUE INDEX" if create.startswith("CREATE UNIQUE INDEX ") else "CREATE INDEX"
    if not create.startswith(f"{kind} "):
        raise NotSupportedError(f"{index.name} is a table constraint, not an index")
    return kind, create.removeprefix(f"{kind} ")


def _build(schema_editor, model, index):
    kind, rest = _create_sql(schema_editor, model, index)
    build = f"{kind} CONCURRENTLY {rest}"
    if schema_editor.collect_sql:
        schema_editor.execute(build, params=None)
        return
    found = _describe(schema_editor, model._meta.db_table, index.name)
    if found is not None and found["valid"]:
        _verify(schema_editor, model, index)
        return
    _drop(schema_editor, model, index.name)
    try:
        schema_editor.execute(build, params=None)
    except IntegrityError:
        # What a refused build leaves costs every write and serves no read.
        _drop(schema_editor, model, index.name)
        raise
    try:
        _verify(schema_editor, model, index)
    except MigrationIndexRefused:
        _drop(schema_editor, model, index.name)
        raise


def _detail(error):
    diagnostics = getattr(error.__cause__, "diag", None)
    return getattr(diagnostics, "message_detail", None) or str(error)


def _build_successor(schema_editor, model, constraint):
    try:
        _build(schema_editor, model, constraint)
    except IntegrityError as error:
        # Only where no index kept such rows out: somebody has dropped it by hand.
        raise MigrationIndexRefused(
            index=constraint.name,
            table=model._meta.db_table,
            problem=f"cannot be built: {_detail(error)}",
            fix=f'manage.py dbshell -- -c "{DUPLICATES}"',
        ) from error


def _build_predecessor(schema_editor, model, constraint):
    try:
        _build(schema_editor, model, constraint)
    except IntegrityError as error:
        # A second tenant took a key while the index was being built.
        raise _shared_keys(schema_editor) from error


def _replace(operation, app_label, schema_editor, state):
    """Drop an index after its successor was verified, under one lock, so nothing comes between."""
    model = state.apps.get_model(app_label, operation.model_name)
    if operation.allow_migrate_model(schema_editor.connection.alias, model):
        name = operation.succeeded_by
        successor = _constraint(state, app_label, operation.model_name, name)
        with operation._alone(schema_editor):
            if not schema_editor.collect_sql:
                _build_successor(schema_editor, model, successor)
            _drop(schema_editor, model, operation.name)


def _constraint(state, app_label, model_name, name):
    return state.models[app_label, model_name.lower()].get_constraint_by_name(name)


def _verify(schema_editor, model, index):
    """Raise unless the index is there, valid, and what the model declares."""
    if schema_editor.collect_sql:
        return
    table = model._meta.db_table
    found = _describe(schema_editor, table, index.name)
    fix = "manage.py migrate ultimate_jobs"
    if found is None:
        problem = "is not there"
    elif not found["valid"]:
        problem = "is not valid"
    elif found["definition"] != _expected(schema_editor, model, index):
        problem = f"is defined otherwise: {found['definition']}"
        fix = f'manage.py dbshell -- -c "DROP INDEX CONCURRENTLY {index.name}"'
    else:
        return
    raise MigrationIndexRefused(index=index.name, table=table, problem=problem, fix=fix)


def _drop(schema_editor, model, name):
    if schema_editor.collect_sql:
        quoted = schema_editor.quote_name(name)
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {quoted}", params=None)
        return
    found = _describe(schema_editor, model._meta.db_table, name)
    if found is not None:
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {found['place']}", params=None)


def _describe(schema_editor, table, name):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(DESCRIBE, [schema_editor.quote_name(table), name])
        row = cursor.fetchone()
    if row is None:
        return None
    place, valid, unique, shape = row
    return {
        "place": place,
        "valid": valid,
        "definition": f"{'UNIQUE ' if unique else ''}{shape}",
    }


def _expected(schema_editor, model, index):
    """Let PostgreSQL spell the definition itself, on an empty twin that never commits."""
    connection = schema_editor.connection
    twin = f"{model._meta.db_table}_twin"
    kind, rest = _create_sql(schema_editor, model, index)
    table = schema_editor.quote_name(model._meta.db_table)
    quoted_twin = schema_editor.quote_name(twin)
    on_twin = rest.replace(f" ON {table} ", f" ON {quoted_twin} ", 1)
    on_twin = on_twin.replace(
        schema_editor.quote_name(index.name), schema_editor.quote_name(f"{twin}_idx"), 1
    )
    with transaction.atomic(using=connection.alias):
        schema_editor.execute(f"CREATE TABLE {quoted_twin} (LIKE {table})", params=None)
        schema_editor.execute(f"{kind} {on_twin}", params=None)
        found = _describe(schema_editor, twin, f"{twin}_idx")
        transaction.set_rollback(True, using=connection.alias)
    return found["definition"]


def _shared_keys(schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(SHARED_KEYS, [LISTED])
        rows = cursor.fetchall()
    return MigrationKeysShared(
        shared=[(name, key, tenants) for name, key, tenants, _ in rows],
        total=rows[0][3] if rows else 0,
    )
