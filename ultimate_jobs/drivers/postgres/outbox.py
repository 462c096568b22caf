"""Staging on PostgreSQL: a row in the caller's own transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ultimate_jobs.drivers.postgres.statements import schema_errors
from ultimate_jobs.drivers.vendors import require_postgresql
from ultimate_jobs.ids import new_id
from ultimate_jobs.models import OutboxMessage
from ultimate_jobs.types import EnqueueRequest, OnConflict

ENQUEUE_TOPIC = "ultimate_jobs.enqueue"


class PostgresOutbox:
    """Writes to whichever alias holds the caller's transaction."""

    def stage_enqueue(
        self, requests: Sequence[EnqueueRequest], *, on_conflict: OnConflict, alias: str
    ) -> None:
        require_postgresql(alias, staging=True)
        with schema_errors(alias):
            OutboxMessage.objects.using(alias).bulk_create(
                OutboxMessage(
                    message_id=new_id(),
                    topic=ENQUEUE_TOPIC,
                    tenant_id=request.tenant,
                    payload=_message(request, on_conflict),
                )
                for request in requests
            )


def _message(request: EnqueueRequest, on_conflict: OnConflict) -> dict[str, Any]:
    return {
        "id": str(request.id),
        "run_id": str(request.run_id),
        "name": request.name,
        "queue": request.queue,
        "tenant": request.tenant,
        "key": request.key,
        # As text: parsed and written again, 1e+16 would become a whole number.
        "payload": request.payload,
        "priority": request.priority,
        "max_attempts": request.max_attempts,
        "run_after": request.run_after.isoformat() if request.run_after else None,
        "delay_ms": request.delay_ms,
        "traceparent": request.traceparent,
        "serial_key": request.serial_key,
        "enqueued_by": request.enqueued_by,
        "on_conflict": on_conflict.value,
    }
