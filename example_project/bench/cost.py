"""What a job costs the server: bytes on disk, WAL, and the dead versions that it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from example_project.bench.server import query, wal_position

DEAD = "select n_dead_tup from pg_stat_user_tables where relid = %s::regclass"

SIZE = "select coalesce(pg_total_relation_size(to_regclass(%s)), 0)"


class Bill:
    """What filling and draining a table cost, for each job.

    The WAL is the whole server's; so it is the job's only where nobody else writes.
    """

    def __init__(self, table: str, count: int) -> None:
        self._table = table
        self._count = count
        self._figures: dict[str, float] = {}
        self._size = self._bytes()
        self.begins()

    def begins(self) -> None:
        """Count WAL from here."""
        self._wal = wal_position()

    def enqueued(self) -> None:
        self._figures["wal_bytes_per_enqueue"] = self._wal_per_job()

    def drained(self) -> None:
        self._figures["wal_bytes_per_drain"] = self._wal_per_job()
        self._figures["bytes_per_job"] = round((self._bytes() - self._size) / self._count, 1)

    def closed(self) -> None:
        query("select pg_stat_clear_snapshot()")
        dead = query(DEAD, [self._table])[0]
        self._figures["dead_rows_per_job"] = round(dead / self._count, 2)

    def as_dict(self) -> dict[str, float]:
        return dict(self._figures)

    def _bytes(self) -> int:
        """Return how large the table is with its indexes; 0 where it does not exist yet."""
        return int(query(SIZE, [self._table])[0])

    def _wal_per_job(self) -> float:
        return round((wal_position() - self._wal) / self._count, 1)


@contextmanager
def bill_of(table: str, count: int) -> Iterator[Bill]:
    """Measure what is added to a table; the caller says when it was filled and drained."""
    bill = Bill(table, count)
    yield bill
    bill.closed()
