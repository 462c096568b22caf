"""The PostgreSQL driver: set-based statements over Django's own connections."""

from ultimate_jobs.drivers.postgres.driver import PostgresDriver

__all__ = ["PostgresDriver"]
