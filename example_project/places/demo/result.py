"""What a run came to, and whether that is what was promised."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from example_project.places.demo.options import Options


@dataclass(frozen=True, slots=True)
class Result:
    """The figures of a run.

    Attributes:
        enqueued: accepted enqueues; each is one job.
        deduped: enqueues that were answered with a job that was already waiting.
        retried: jobs that needed more than one attempt, whether they completed or died.
        lost: accepted jobs, poison apart, without any effect.
        doubled: accepted jobs with more than one effect.
        jobs_per_second: ended jobs from the first claim to the last end.
        seconds: the whole demo, the server's start and the migrations included.
    """

    enqueued: int
    deduped: int
    completed: int
    dead: int
    retried: int
    lost: int
    doubled: int
    jobs_per_second: float
    seconds: float
    tenants: int
    seed: int
    run: str

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def faults(self, options: Options) -> list[str]:
        """Return, a sentence each, where this is not what was promised."""
        wrong = []
        if self.lost:
            wrong.append(f"{self.lost:,} accepted jobs never had their effect.")
        if self.doubled:
            wrong.append(f"{self.doubled:,} accepted jobs had their effect more than once.")
        if self.deduped != options.duplicates:
            wrong.append(
                f"{self.deduped:,} enqueues were deduped, and {options.duplicates:,} should be."
            )
        if self.dead != options.poison:
            wrong.append(f"{self.dead:,} jobs are dead, and {options.poison:,} should be.")
        if self.completed + self.dead != self.enqueued:
            wrong.append(
                f"{self.completed + self.dead:,} jobs ended, and {self.enqueued:,} were accepted."
            )
        return wrong
