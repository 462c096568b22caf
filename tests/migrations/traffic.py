"""Two apps that enqueue while a migration runs, and a look at the indexes at every moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any
from uuid import UUID, uuid4

import psycopg
from django.db import connections

from tests.migrations.database import ALIAS, ScratchDatabase
from tests.migrations.release_3_0 import ENQUEUE, NEW_INDEX, OLD_INDEX, STRAY_INDEX
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.errors import JobsSchema
from ultimate_jobs.ids import new_id
from ultimate_jobs.types import EnqueueRequest, OnConflict

DEADLINE_SECONDS = 20.0
LIVE_KEY_INDEXES = {STRAY_INDEX, OLD_INDEX, NEW_INDEX}


class Outcome(Enum):
    ACCEPTED = "accepted"
    DEDUPED = "deduped"
    SCHEMA = "the schema is not that of this release"


@dataclass(frozen=True)
class Attempt:
    """One enqueue, and the id that its caller was handed."""

    round: int
    app: str
    name: str
    tenant: str | None
    key: str
    outcome: Outcome
    answered: UUID | None


class App:
    """An app of 3.0.0: one INSERT on a connection of its own."""

    name = "3.0.0"

    def __init__(self, database: ScratchDatabase) -> None:
        self._connection = database.connect()

    def enqueue(self, name: str, tenant: str | None, key: str) -> tuple[Outcome, UUID | None]:
        asked = {"id": uuid4(), "name": name, "tenant": tenant, "key": key}
        try:
            stored = self._connection.execute(ENQUEUE, asked).fetchone()
        except psycopg.errors.InvalidColumnReference:
            return Outcome.SCHEMA, None
        except psycopg.errors.UniqueViolation as error:
            if error.diag.constraint_name not in LIVE_KEY_INDEXES:
                raise
            return Outcome.SCHEMA, None
        return (Outcome.ACCEPTED, stored[0]) if stored else (Outcome.DEDUPED, None)

    def close(self) -> None:
        self._connection.close()


class CurrentApp(App):
    """An app of this release: the driver on Django's connection."""

    name = "current"

    def __init__(self, database: ScratchDatabase) -> None:
        self._driver = PostgresDriver(ALIAS)

    def enqueue(self, name: str, tenant: str | None, key: str) -> tuple[Outcome, UUID | None]:
        request = EnqueueRequest(
            id=new_id(),
            run_id=new_id(),
            name=name,
            queue="default",
            tenant=tenant,
            key=key,
            payload='{"from": "current"}',
        )
        try:
            answer = self._driver.enqueue([request], on_conflict=OnConflict.EXISTING)[0]
        except JobsSchema:
            return Outcome.SCHEMA, None
        return Outcome.DEDUPED if answer.deduped else Outcome.ACCEPTED, answer.id

    def close(self) -> None:
        connections[ALIAS].close()


class Traffic:
    """Two apps that ask for the same key at the same moment, one key after the other.

    Nothing ever finishes these jobs. So a key that was live twice at any moment is live twice at
    the end, and one count proves the whole time.
    """

    def __init__(
        self,
        database: ScratchDatabase,
        apps: Sequence[type[App]],
        tenants: Callable[[int], Sequence[str | None]],
    ) -> None:
        self._database = database
        self._tenants = tenants
        self._start = threading.Barrier(len(apps), action=self._begin_round)
        self._stop = False
        self._ended = False
        self._failures: list[BaseException] = []
        self.rounds = 0
        self.attempts: list[Attempt] = []
        self._threads = [
            threading.Thread(target=self._serve, args=(kind, place))
            for place, kind in enumerate(apps)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop = True
        for thread in self._threads:
            thread.join(timeout=DEADLINE_SECONDS)
        if self._failures:
            raise self._failures[0]

    def wait_for_rounds(self, count: int) -> list[Attempt]:
        """Return what was attempted in this many rounds that begin from now on."""
        begin = self.rounds
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self.rounds <= begin + count:
            if self._failures:
                raise self._failures[0]
            assert time.monotonic() < deadline, "the writers stand still"
            time.sleep(0.001)
        return [attempt for attempt in self.attempts if attempt.round > begin]

    def _begin_round(self) -> None:
        self.rounds += 1
        # Both threads see the same answer, so neither waits for the other in vain.
        self._ended = self._stop

    def _serve(self, kind: type[App], place: int) -> None:
        try:
            app = kind(self._database)
            try:
                while True:
                    self._start.wait(timeout=DEADLINE_SECONDS)
                    if self._ended:
                        return
                    self._attempt(app, place, self.rounds)
            finally:
                app.close()
        except BaseException as error:
            self._failures.append(error)
            self._start.abort()

    def _attempt(self, app: App, place: int, number: int) -> None:
        tenant, name, key = self._tenants(number)[place], f"job_{number % 3}", f"race_{number}"
        outcome, answered = app.enqueue(name, tenant, key)
        self.attempts.append(Attempt(number, app.name, name, tenant, key, outcome, answered))


class IndexWatch:
    """Asks the catalog, again and again, which unique indexes of live keys are valid."""

    QUERY = """
    select array_agg(c.relname::text order by c.relname)
    from pg_index i join pg_class c on c.oid = i.indexrelid
    where i.indrelid = 'x_jobs'::regclass and c.relname like '%idempotency_live_idx'
        and i.indisunique and i.indisvalid and i.indisready and i.indislive
    """

    def __init__(self, database: ScratchDatabase) -> None:
        self._connection = database.connect()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self.samples = 0
        self.seen: list[tuple[str, ...]] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=DEADLINE_SECONDS)
        self._connection.close()

    def wait_for_a_sample(self) -> None:
        """Return when the catalog was asked once more, from beginning to end."""
        before, deadline = self.samples, time.monotonic() + DEADLINE_SECONDS
        while self.samples < before + 2:
            assert time.monotonic() < deadline, "the watch stands still"
            time.sleep(0.001)

    def _serve(self) -> None:
        while not self._stop.wait(0.0005):
            row: tuple[Any, ...] | None = self._connection.execute(self.QUERY).fetchone()
            valid = tuple(row[0] or ()) if row else ()
            self.samples += 1
            if not self.seen or self.seen[-1] != valid:
                self.seen.append(valid)


@contextmanager
def traffic(
    database: ScratchDatabase,
    *apps: type[App],
    tenants: Callable[[int], Sequence[str | None]],
) -> Iterator[tuple[Traffic, IndexWatch]]:
    """Run two apps and the watch around a block."""
    running, watch = Traffic(database, apps, tenants), IndexWatch(database)
    watch.start()
    running.start()
    try:
        yield running, watch
    finally:
        watch.stop()
        running.stop()


def live_twice(database: ScratchDatabase) -> list[tuple[Any, ...]]:
    """Return every (name, tenant, key) that more than one live job holds."""
    return database.sql(
        "select name, coalesce(tenant_id, ''), idempotency_key, count(*) from x_jobs"
        " where state in ('ready', 'delayed', 'running', 'suspended')"
        " group by 1, 2, 3 having count(*) > 1"
    )
