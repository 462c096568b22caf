"""Durable background jobs for Django on PostgreSQL."""

from ultimate_jobs.declare import Job, describe, job
from ultimate_jobs.interruptions import AttemptTimeout, ClaimLost, JobCancelled
from ultimate_jobs.limits import Limiter
from ultimate_jobs.retry import Retry, RetryLater
from ultimate_jobs.services.context import JobContext
from ultimate_jobs.services.handles import RunHandle
from ultimate_jobs.services.jobs import cancel, get, retry
from ultimate_jobs.services.queues import pause_queue, resume_queue
from ultimate_jobs.types import ANY_TENANT, OnConflict

__version__ = "4.1.0"

__all__ = [
    "ANY_TENANT",
    "AttemptTimeout",
    "ClaimLost",
    "Job",
    "JobCancelled",
    "JobContext",
    "Limiter",
    "OnConflict",
    "Retry",
    "RetryLater",
    "RunHandle",
    "cancel",
    "describe",
    "get",
    "job",
    "pause_queue",
    "resume_queue",
    "retry",
]
