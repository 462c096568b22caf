"""The screens of the admin: read-only, and bounded whatever the tables hold."""

from ultimate_jobs.admin.jobs import JobAdmin
from ultimate_jobs.admin.leases import LeaseAdmin

__all__ = ["JobAdmin", "LeaseAdmin"]
