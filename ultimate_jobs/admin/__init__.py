"""The screens of the admin: read-only, and bounded whatever the tables hold."""

from ultimate_jobs.admin.jobs import JobAdmin
from ultimate_jobs.admin.leases import LeaseAdmin
from ultimate_jobs.admin.queues import QueueAdmin

__all__ = ["JobAdmin", "LeaseAdmin", "QueueAdmin"]
