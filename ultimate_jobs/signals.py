"""Django signals of a worker: what it tells the app's own code about attempts.

The sender is the job's own function (``my_job.__wrapped__``). Every signal has the keywords
``job``, ``job_id``, ``run_id``, ``queue``, ``tenant`` and ``attempt``; never a payload or a key. A
receiver that raises is logged and changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.dispatch import Signal

from ultimate_jobs.errors import JobUnknown
from ultimate_jobs.registry import find_job
from ultimate_jobs.types import Claim

logger = logging.getLogger("ultimate_jobs")

job_started = Signal()
"""An attempt is about to begin; sent where the body will run."""

job_failed = Signal()
"""An attempt failed and that is committed: also ``error_class``, ``will_retry``, ``delay_ms``."""

job_dead = Signal()
"""The job is ``dead`` and that is committed; follows ``job_failed``. Also ``error_class``."""


def tell(signal: Signal, claim: Claim, **facts: Any) -> bool:
    """Send one signal about a claim; say whether anybody listens."""
    if not signal.receivers:
        return False
    try:
        signal.send_robust(sender=_function(claim), **_facts(claim), **facts)
    except BaseException:
        # send_robust() lets through what does not derive from Exception.
        logger.exception("a receiver of a signal of ultimate_jobs raised what is no Exception")
    return True


async def atell(signal: Signal, claim: Claim, **facts: Any) -> None:
    """The twin of ``tell`` for an event loop."""
    if signal.receivers:
        # Not asend_robust(): a receiver's SystemExit would leave its task and end the loop.
        await sync_to_async(tell)(signal, claim, **facts)


def _function(claim: Claim) -> Callable[..., Any] | None:
    try:
        return find_job(claim.name).func
    except JobUnknown:
        return None


def _facts(claim: Claim) -> dict[str, Any]:
    return {
        "job": claim.name,
        "job_id": claim.id,
        "run_id": claim.run_id,
        "queue": claim.queue,
        "tenant": claim.tenant,
        "attempt": claim.attempt,
    }
