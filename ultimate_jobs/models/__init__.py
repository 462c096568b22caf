"""One model per table; the tables' names are fixed."""

from ultimate_jobs.models.backfill import BackfillError, BackfillPass
from ultimate_jobs.models.event import JobEvent
from ultimate_jobs.models.job import Job
from ultimate_jobs.models.lease import Lease
from ultimate_jobs.models.outbox import OutboxMessage
from ultimate_jobs.models.queue import Queue
from ultimate_jobs.models.step import JobSignal, JobStep
from ultimate_jobs.models.task import SchedulerLeader, SchedulerOccurrence, SchedulerState

__all__ = [
    "BackfillError",
    "BackfillPass",
    "Job",
    "JobEvent",
    "JobSignal",
    "JobStep",
    "Lease",
    "OutboxMessage",
    "Queue",
    "SchedulerLeader",
    "SchedulerOccurrence",
    "SchedulerState",
]
