"""Fixtures of the race tests."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest

from tests.concurrency.sessions import Session, sessions
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.types import WorkerCard


@pytest.fixture
def pair(transactional_db: None) -> Iterator[tuple[Session, Session]]:
    """Two sessions."""
    with sessions(2) as opened:
        yield opened[0], opened[1]


@pytest.fixture
def driver(transactional_db: None) -> PostgresDriver:
    """The real driver on the test database."""
    return PostgresDriver("default")


@pytest.fixture
def worker(driver: PostgresDriver) -> UUID:
    """A worker with a valid lease."""
    return register_worker(driver)


def register_worker(driver: PostgresDriver) -> UUID:
    identity = uuid4()
    driver.leases.register(
        WorkerCard(worker=identity, names=("race",), queues=None, hostname="test", pid=1, threads=1)
    )
    return identity
