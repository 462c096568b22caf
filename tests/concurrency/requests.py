"""Requests for the race tests."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.ids import new_id
from ultimate_jobs.types import (
    Claim,
    ClaimRequest,
    EnqueueAnswer,
    EnqueueRequest,
    OnConflict,
)


def request(key: str = "k1", **changes: Any) -> EnqueueRequest:
    fields: dict[str, Any] = {
        "id": new_id(),
        "run_id": new_id(),
        "name": "race",
        "queue": "default",
        "tenant": None,
        "key": key,
        "payload": "{}",
        "max_attempts": 3,
    }
    return EnqueueRequest(**{**fields, **changes})


def enqueue(
    driver: PostgresDriver,
    key: str = "k1",
    on_conflict: OnConflict = OnConflict.EXISTING,
    **changes: Any,
) -> EnqueueAnswer:
    return driver.enqueue([request(key, **changes)], on_conflict=on_conflict)[0]


def claim(driver: PostgresDriver, worker: UUID, limit: int = 10) -> list[Claim]:
    return driver.claim(ClaimRequest(worker=worker, names=("race",), limit=limit))
