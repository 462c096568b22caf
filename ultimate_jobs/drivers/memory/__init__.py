"""The driver that keeps jobs in this process, for tests: the door, nothing else."""

from ultimate_jobs.drivers.memory.driver import MemoryDriver

__all__ = ["MemoryDriver"]
