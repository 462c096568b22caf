"""Refusals about a job that is stored: reading, retrying, cancelling, completing it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ultimate_jobs.errors.base import UltimateJobsError, listing


class JobNotFound(UltimateJobsError):
    """No job of this id exists where it was looked for: in one tenant, or in all."""

    code = "X_JOB_NOT_FOUND"

    def __init__(self, *, job_id: object) -> None:
        super().__init__(
            cause=f"no job has the id {job_id} among the tenants that were asked",
            fix="manage.py jobs ls",
        )


class JobStateRefused(UltimateJobsError):
    """The job's state does not allow what was asked."""

    code = "X_JOB_STATE_REFUSED"

    def __init__(self, *, job_id: object, state: str, verb: str, allowed: Iterable[str]) -> None:
        super().__init__(
            cause=f"job {job_id} is {state}; {verb} is for {' or '.join(allowed)} jobs",
            fix=f"manage.py jobs show {job_id}",
        )


class JobFailed(UltimateJobsError):
    """A result was asked of a run that ended without one."""

    code = "X_JOB_FAILED"

    def __init__(self, *, job_id: object, state: str) -> None:
        super().__init__(
            cause=f"job {job_id} ended {state} and has no result",
            fix=f"manage.py jobs show {job_id}",
        )


class ResultTimeout(UltimateJobsError):
    """A result did not arrive in time."""

    code = "X_RESULT_TIMEOUT"

    def __init__(self, *, job_id: object, state: str, waited_seconds: float) -> None:
        super().__init__(
            cause=f"job {job_id} is still {state} after {waited_seconds:g} seconds",
            fix=f"manage.py jobs show {job_id}",
        )


class ResultInTransaction(UltimateJobsError):
    """A result was awaited inside the transaction that must commit first."""

    code = "X_RESULT_IN_TRANSACTION"

    def __init__(self, *, job_id: object, alias: str) -> None:
        super().__init__(
            cause=f'the result of job {job_id} is awaited inside atomic() on "{alias}", '
            "where the run cannot be seen to end",
            fix="call result() after the atomic() block",
        )


class ResultInvalid(UltimateJobsError):
    """A job returned what JSON cannot carry."""

    code = "X_RESULT_INVALID"

    def __init__(self, *, job: str, path: str, problem: str) -> None:
        super().__init__(
            cause=f'job "{job}" returned a value whose {path} {problem}',
            fix="return plain JSON values, or None",
        )


class TransactionLeftOpen(UltimateJobsError):
    """A body returned inside a transaction that it did not end; what it wrote there is undone."""

    code = "X_TRANSACTION_LEFT_OPEN"

    def __init__(self, *, job: str, aliases: Sequence[str]) -> None:
        super().__init__(
            cause=f'job "{job}" returned with a transaction open on {listing(aliases)}, '
            "which was rolled back",
            fix=f'write it inside: with transaction.atomic(using="{min(aliases)}"):',
        )


class AttemptTimedOut(UltimateJobsError):
    """An attempt ran longer than its timeout."""

    code = "X_ATTEMPT_TIMEOUT"

    def __init__(self, *, job: str, seconds: float, stopped: bool) -> None:
        end = "" if stopped else ", and did not stop when it was told to"
        super().__init__(
            cause=f'an attempt of job "{job}" ran longer than its timeout of {seconds:g} '
            f"seconds{end}",
            fix=f"declare it as @job(timeout={2 * seconds:g}, ...)",
        )


class RetryLaterSpent(UltimateJobsError):
    """A body raised RetryLater more often than it may."""

    code = "X_RETRY_LATER_SPENT"

    def __init__(self, *, job_id: object, limit: int, what: str) -> None:
        super().__init__(
            cause=f"job {job_id} raised RetryLater with all of its {limit} {what} used up",
            fix=f"manage.py jobs retry {job_id}",
        )


class JobRowStatusUnknown(UltimateJobsError):
    """A stored status is none of those this release knows; a newer release may have written it."""

    code = "X_JOB_ROW_STATUS_UNKNOWN"

    def __init__(self, *, table: str, column: str, value: str, known: Iterable[str]) -> None:
        super().__init__(
            cause=f"{table}.{column} holds {value!r}, which is none of: {', '.join(known)}",
            fix="deploy the release that wrote the row to this process as well",
        )


class JobRowInvalid(UltimateJobsError):
    """A stored row cannot be decoded."""

    code = "X_JOB_ROW_INVALID"

    def __init__(self, *, table: str, column: str, problem: str, row: object) -> None:
        super().__init__(
            cause=f"{table}.{column} of row {row} {problem}",
            fix=f"manage.py jobs show {row}",
        )


class LeaseLost(UltimateJobsError):
    """A worker wrote for a claim that is no longer its own; nothing was changed."""

    code = "X_LEASE_LOST"

    def __init__(self, *, job_id: object, worker: object, token: int) -> None:
        super().__init__(
            cause=f"claim {token} of job {job_id} by worker {worker} was lost; "
            "its late write changed nothing",
            fix=f"manage.py jobs show {job_id}",
        )


class WorkerGone(UltimateJobsError):
    """The worker died with the job, too often."""

    code = "X_WORKER_GONE"

    def __init__(self, *, job_id: object, lost_leases: int) -> None:
        super().__init__(
            cause=f"job {job_id} lost its worker {lost_leases} times, the most that "
            "MAX_LOST_LEASES allows",
            fix=f"manage.py jobs retry {job_id}",
        )
