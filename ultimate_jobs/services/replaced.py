"""What a middleware hands on in place of a request, checked as the request itself was."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ultimate_jobs.errors import JobOptionInvalid
from ultimate_jobs.identity import check_text
from ultimate_jobs.retry import MAX_ATTEMPTS
from ultimate_jobs.services.options import MAX_DELAY, EnqueueOptions, check_priority
from ultimate_jobs.types import EnqueueRequest

MAX_DELAY_MS = round(MAX_DELAY.total_seconds() * 1000)
# Answers are found by the ids, and the payload was checked against the body's parameters.
FIXED = ("id", "run_id", "payload")


def check_replaced(
    made: Sequence[EnqueueRequest], handed_on: Sequence[EnqueueRequest]
) -> Sequence[EnqueueRequest]:
    """Return what was handed on; a request that is still the very object made costs nothing.

    Raises:
        JobOptionInvalid, JobKeyInvalid: a field was replaced by what ``using()`` would refuse.
    """
    if handed_on is made:
        return handed_on
    by_id = {one.id: one for one in made}
    for one in handed_on:
        original = by_id.get(one.id)
        if original is not one:
            _check(original, one)
    return handed_on


def _check(original: EnqueueRequest | None, one: EnqueueRequest) -> None:
    job = check_text("any", "name", one.name)
    check_text(job, "queue", one.queue)
    check_text(job, "key", one.key)
    if one.serial_key is not None and (original is None or one.serial_key != original.serial_key):
        check_text(job, "serial", one.serial_key)
    for name in FIXED:
        if original is None or getattr(one, name) != getattr(original, name):
            raise _refused(job, name, "may not be replaced", f"leave {name} as it was")
    check_priority(job, one.priority)
    EnqueueOptions().updated(job, {"tenant": one.tenant, "traceparent": one.traceparent})
    _check_times(job, one)
    _check_whole(job, "max_attempts", one.max_attempts, 1, MAX_ATTEMPTS)


def _check_times(job: str, one: EnqueueRequest) -> None:
    if one.run_after is not None:
        if not isinstance(one.run_after, datetime):
            kind = type(one.run_after).__name__
            problem = f"is {kind}, neither an aware datetime nor None"
            raise _refused(job, "run_after", problem, "replace delay_ms=60_000 for a duration")
        EnqueueOptions().updated(job, {"run_after": one.run_after})
    _check_whole(job, "delay_ms", one.delay_ms, 0, MAX_DELAY_MS)
    if one.run_after is not None and one.delay_ms:
        problem = "stands beside run_after, and a job has one of the two"
        raise _refused(job, "delay_ms", problem, "replace run_after=None as well")


def _check_whole(job: str, option: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        problem = f"is no whole number from {low} to {high}"
        raise _refused(job, option, problem, f"leave {option} as it was")


def _refused(job: str, option: str, problem: str, fix: str) -> JobOptionInvalid:
    return JobOptionInvalid(
        option=option, problem=f'of job "{job}", as a middleware replaced it, {problem}', fix=fix
    )
