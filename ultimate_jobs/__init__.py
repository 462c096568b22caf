"""Durable background jobs for Django on PostgreSQL."""

from ultimate_jobs.declare import Job, describe, job
from ultimate_jobs.interruptions import ClaimLost, JobCancelled
from ultimate_jobs.retry import Retry
from ultimate_jobs.services.context import JobContext
from ultimate_jobs.services.handles import RunHandle
from ultimate_jobs.services.jobs import cancel, get, retry
from ultimate_jobs.types import ANY_TENANT, OnConflict

__version__ = "4.1.0"

__all__ = [
    "ANY_TENANT",
    "ClaimLost",
    "Job",
    "JobCancelled",
    "JobContext",
    "OnConflict",
    "Retry",
    "RunHandle",
    "cancel",
    "describe",
    "get",
    "job",
    "retry",
]
