"""The verbs of jobs: enqueue, get, cancel, retry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from ultimate_jobs import conf
from ultimate_jobs.drivers import current_driver
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.errors import DriverUnsupported, JobNotFound, JobOptionInvalid
from ultimate_jobs.hooks.middleware import around_enqueue
from ultimate_jobs.identity import check_text
from ultimate_jobs.ids import new_id
from ultimate_jobs.limits import serial_key
from ultimate_jobs.records import JobRecord
from ultimate_jobs.registry import JobDefinition
from ultimate_jobs.services import wakeups
from ultimate_jobs.services.context import current_context
from ultimate_jobs.services.depth import admit
from ultimate_jobs.services.handles import RunHandle
from ultimate_jobs.services.options import EnqueueOptions
from ultimate_jobs.services.placement import Way, place
from ultimate_jobs.services.replaced import check_replaced
from ultimate_jobs.states import JobState
from ultimate_jobs.types import (
    ANY_TENANT,
    CancelAnswer,
    CancelOutcome,
    EnqueueAnswer,
    EnqueueRequest,
    OnConflict,
    TenantScope,
)


def enqueue(
    definition: JobDefinition, options: EnqueueOptions, inputs: Iterable[Mapping[str, Any]]
) -> list[RunHandle]:
    """Ask for one run per mapping of inputs; the answers come in the same order.

    Every input is checked before anything is written.

    Raises:
        JobInputInvalid, JobPayloadInvalid, JobPayloadTooLarge, JobKeyInvalid: one is refused.
        JobDuplicate: a key is held and ``on_conflict`` is ``error``.
        JobOptionInvalid: ``on_conflict`` is ``error`` and the enqueue is staged.
        DriverUnsupported: the job is ``atomic`` and the jobs are in no database.
        QueueFull: ``QUEUES`` bounds the queue's depth, and it is reached.
        MiddlewareInvalid: a middleware did not return the answers; the cause says what was written.
        EnqueueSerialization, EnqueueAliasAmbiguous, JobsSchema: see their pages.
    """
    requests = [_request(definition, options, one) for one in inputs]
    if not requests:
        return []
    answers = around_enqueue(
        requests, lambda given: _write(definition, options, check_replaced(requests, given))
    )
    return [RunHandle.of(answer) for answer in answers]


def _write(
    definition: JobDefinition, options: EnqueueOptions, requests: Sequence[EnqueueRequest]
) -> list[EnqueueAnswer]:
    if not requests:
        return []
    driver = current_driver()
    if definition.atomic and not driver.supports_atomic:
        raise DriverUnsupported(driver=driver.name, feature="atomic=True")
    placement = place(driver, job=definition.name, alias=options.alias)
    requests = admit(driver, list(requests))
    if placement.way is Way.DIRECT:
        answers = driver.enqueue(requests, on_conflict=options.on_conflict)
        wakeups.announce_new(driver, requests, answers)
    elif placement.way is Way.STAGED:
        answers = _stage(driver, requests, options.on_conflict, str(placement.alias))
    else:
        answers = _on_commit(driver, requests, options.on_conflict, str(placement.alias))
    return answers


def get(job_id: UUID | str, *, tenant: TenantScope) -> JobRecord:
    """Return one job.

    Args:
        tenant: ``None`` looks among the tenantless jobs only; ``ANY_TENANT`` everywhere.

    Raises:
        JobNotFound: the tenant has no such id.
        JobKeyInvalid: no tenant can be called so.
    """
    record = current_driver().introspection.get(_uuid(job_id), tenant=_scope(job_id, tenant))
    if record is None:
        raise JobNotFound(job_id=job_id)
    return record


def cancel(job_id: UUID | str, *, tenant: TenantScope, by: str = "app") -> CancelAnswer:
    """Cancel a job: a waiting one at once, a running one at its next check.

    Args:
        tenant: as for ``get``.
        by: who asks, for the job's history.

    Raises:
        JobNotFound: the tenant has no such id.
    """
    scope = _scope(job_id, tenant)
    answer = current_driver().cancel([_uuid(job_id)], tenant=scope, by=by)[0]
    if answer.outcome is CancelOutcome.NOT_FOUND:
        raise JobNotFound(job_id=job_id)
    return answer


def retry(
    job_id: UUID | str, *, tenant: TenantScope, fresh: bool = False, by: str = "app"
) -> JobRecord:
    """Bring a dead or cancelled job back under its id, run and key, with all attempts anew.

    Args:
        fresh: start a new run under the same job; the only retry of a completed one.

    Raises:
        JobNotFound: the tenant has no such id.
        JobStateRefused: it is live, or completed and ``fresh`` was not asked.
        JobDuplicate: a live job holds its key; nothing was changed.
    """
    driver = current_driver()
    record = driver.introspection.retry(
        _uuid(job_id),
        tenant=_scope(job_id, tenant),
        by=by,
        fresh_run_id=new_id() if fresh else None,
    )
    wakeups.announce(driver, {record.queue})
    return record


def _request(
    definition: JobDefinition, options: EnqueueOptions, inputs: Mapping[str, Any]
) -> EnqueueRequest:
    values = definition.schema.load(inputs)
    payload = definition.schema.dump(values, max_bytes=conf.settings().max_payload_bytes)
    # Here and not in a worker, where jobs without a key of their own would share one limit.
    definition.limits.check_keys(definition.name, values)
    run_after, delay_ms = _timing(options.run_after)
    context = current_context()
    return EnqueueRequest(
        id=new_id(),
        run_id=new_id(),
        name=definition.name,
        queue=options.queue or definition.queue,
        tenant=options.tenant,
        key=check_text(definition.name, "key", definition.key_for(values)),
        payload=payload,
        priority=definition.priority if options.priority is None else options.priority,
        max_attempts=definition.retry.attempts,
        run_after=run_after,
        delay_ms=delay_ms,
        traceparent=options.traceparent or (context.traceparent if context else None),
        enqueued_by=f"job:{context.job_id}" if context else None,
        serial_key=_serial_key(definition, options.tenant, values),
    )


def _serial_key(
    definition: JobDefinition, tenant: str | None, values: Mapping[str, Any]
) -> str | None:
    """Return the lane of the job; what cannot be one is refused here and not by a worker later."""
    lane_of = definition.limits.serial_for
    if lane_of is None:
        return None
    return serial_key(tenant, check_text(definition.name, "serial", lane_of(values)))


def _timing(run_after: datetime | timedelta | None) -> tuple[datetime | None, int]:
    """A timedelta is added by the database, whose clock alone decides what is due."""
    if isinstance(run_after, timedelta):
        return None, max(0, round(run_after.total_seconds() * 1000))
    return run_after, 0


def _stage(
    driver: Driver, requests: Sequence[EnqueueRequest], on_conflict: OnConflict, alias: str
) -> list[EnqueueAnswer]:
    if on_conflict is OnConflict.ERROR:
        raise JobOptionInvalid(
            option="on_conflict",
            problem=f'of job "{requests[0].name}" is "error", and whether its key is held is not '
            f'known before the transaction on "{alias}" has committed',
            fix='use .using(on_conflict="existing")',
        )
    driver.outbox.stage_enqueue(requests, on_conflict=on_conflict, alias=alias)
    return [_unknown_yet(request) for request in requests]


def _on_commit(
    driver: Driver, requests: Sequence[EnqueueRequest], on_conflict: OnConflict, alias: str
) -> list[EnqueueAnswer]:
    def apply() -> None:
        answers = driver.enqueue(requests, on_conflict=on_conflict)
        wakeups.announce_new(driver, requests, answers)

    # robust: a refusal after the commit must not keep the app's own callbacks from running. It
    # takes a function with a name, which Django's log of the refusal asks for.
    transaction.on_commit(apply, using=alias, robust=True)
    return [_unknown_yet(request) for request in requests]


def _unknown_yet(request: EnqueueRequest) -> EnqueueAnswer:
    delayed = request.run_after is not None or request.delay_ms > 0
    return EnqueueAnswer(
        id=request.id,
        run_id=request.run_id,
        deduped=None,
        state=JobState.DELAYED if delayed else JobState.READY,
        same_input=None,
    )


def _scope(job_id: object, tenant: TenantScope) -> TenantScope:
    """Return where to look; a falsy value of another type must not mean "tenantless"."""
    if tenant is ANY_TENANT or tenant is None or tenant == "":
        return tenant or None
    return check_text(str(job_id), "tenant", tenant)


def _uuid(job_id: object) -> UUID:
    if isinstance(job_id, UUID):
        return job_id
    try:
        return UUID(str(job_id))
    except ValueError:
        raise JobNotFound(job_id=job_id) from None
