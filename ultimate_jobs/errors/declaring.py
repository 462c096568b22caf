"""Refusals at import: a job that is declared in a way that cannot work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ultimate_jobs.errors.base import UltimateJobsError, listing


class IdempotencyRequired(UltimateJobsError):
    """A job was declared without a key."""

    code = "X_IDEMPOTENCY_REQUIRED"

    def __init__(self, *, job: str, parameters: Sequence[str] = ()) -> None:
        sample = f"{job.rsplit('.', 1)[-1]}:{{{parameters[0]}}}" if parameters else "once"
        super().__init__(
            cause=f'job "{job}" is declared without a key, and a key has no default',
            fix=f'declare it as @job(key="{sample}")',
        )


class JobOptionInvalid(UltimateJobsError):
    """A job was declared or called with an option of the wrong type or range."""

    code = "X_JOB_OPTION_INVALID"

    def __init__(self, *, option: str, problem: str, fix: str) -> None:
        super().__init__(cause=f"option {option} {problem}", fix=fix)


class JobSignatureInvalid(UltimateJobsError):
    """The parameters of a job's function cannot be its input schema."""

    code = "X_JOB_SIGNATURE_INVALID"

    def __init__(self, *, job: str, problem: str, fix: str) -> None:
        super().__init__(cause=f'job "{job}": {problem}', fix=fix)


class JobNameTaken(UltimateJobsError):
    """Two functions claim one job name."""

    code = "X_JOB_NAME_TAKEN"

    def __init__(self, *, name: str, first: str, second: str) -> None:
        super().__init__(
            cause=f'job name "{name}" is declared by {first} and again by {second}',
            fix=f'declare the second as @job(name="{name}_2", ...)',
        )


class JobUnknown(UltimateJobsError):
    """No job of this name is declared in this process."""

    code = "X_JOB_UNKNOWN"

    def __init__(self, *, name: str, known: Iterable[str]) -> None:
        super().__init__(
            cause=f'no job named "{name}" is declared here (declared: {listing(known)})',
            fix="manage.py jobs describe",
        )


class TaskUnbridged(UltimateJobsError):
    """A django.tasks task stands in a jobs.py that no ultimate_jobs backend serves."""

    code = "X_ACTION_JOB_UNBRIDGED"

    def __init__(self, *, task: str) -> None:
        super().__init__(
            cause=f"{task} is a django.tasks task in a jobs.py, and no backend of "
            "ultimate_jobs serves it, so no worker of ours will ever run it",
            fix=f"declare {task} with @ultimate_jobs.job(key=...)",
        )
