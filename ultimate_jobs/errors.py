"""The error tree: every refusal has a code, a cause, a fix of one line, and a page in the docs."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import ClassVar

# code -> class. The one registry of codes; filled as the classes below are defined.
CODES: dict[str, type[UltimateJobsError]] = {}


class UltimateJobsError(Exception):
    """Base of every error this package raises.

    Attributes:
        code: stable identifier, ``X_...``.
        cause: what was wrong and where, in one sentence; never a payload or a key.
        fix: one line that can be run, or one edit to make.
        docs: the page that explains the code, relative to the repository.
    """

    code: ClassVar[str]

    def __init__(self, *, cause: str, fix: str) -> None:
        self.cause = cause
        self.fix = fix
        super().__init__(cause, fix)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "code" in cls.__dict__:
            if cls.code in CODES:
                raise RuntimeError(f"error code {cls.code} is declared twice")
            CODES[cls.code] = cls

    def __reduce__(self) -> tuple[object, ...]:
        # The subclasses take facts, not sentences; an error crosses processes as its sentences,
        # and keeps what else it tells.
        return (_rebuild, (type(self), self.cause, self.fix), self.__dict__)

    @property
    def docs(self) -> str:
        return f"docs/reference/errors/{self.code.lower()}.md"

    def __str__(self) -> str:
        return f"{self.code}: {self.cause}\n  fix: {self.fix}\n  docs: {self.docs}"

    def as_dict(self) -> dict[str, str]:
        """Return the error as the object that ``--json`` prints."""
        return {"code": self.code, "cause": self.cause, "fix": self.fix, "docs": self.docs}


def _rebuild(kind: type[UltimateJobsError], cause: str, fix: str) -> UltimateJobsError:
    error = kind.__new__(kind)
    UltimateJobsError.__init__(error, cause=cause, fix=fix)
    return error


def _listing(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


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
            cause=f'no job named "{name}" is declared here (declared: {_listing(known)})',
            fix="manage.py jobs describe",
        )


class JobInputInvalid(UltimateJobsError):
    """An input does not fit the job's annotations."""

    code = "X_JOB_INPUT_INVALID"

    def __init__(self, *, job: str, problems: Sequence[str]) -> None:
        super().__init__(
            cause=f'job "{job}" refused its input: ' + "; ".join(problems),
            fix=f"manage.py jobs describe {job}",
        )


class JobPayloadInvalid(UltimateJobsError):
    """A value cannot be stored as JSON without changing it."""

    code = "X_JOB_PAYLOAD_INVALID"

    def __init__(self, *, job: str, path: str, problem: str, remedy: str) -> None:
        super().__init__(cause=f'job "{job}": the value at {path} {problem}', fix=remedy)


class JobPayloadTooLarge(UltimateJobsError):
    """A payload exceeds MAX_PAYLOAD_BYTES."""

    code = "X_JOB_PAYLOAD_TOO_LARGE"

    def __init__(self, *, job: str, size: int, limit: int) -> None:
        super().__init__(
            cause=f'job "{job}": the payload is {size} bytes of JSON and the limit is {limit}',
            fix="store the data in a model and pass its primary key",
        )


class JobKeyInvalid(UltimateJobsError):
    """An idempotency key, name, queue or tenant cannot be stored or indexed."""

    code = "X_JOB_KEY_INVALID"

    def __init__(self, *, job: str, what: str, problem: str, fix: str) -> None:
        super().__init__(cause=f'job "{job}": the {what} {problem}', fix=fix)


class JobDuplicate(UltimateJobsError):
    """A live job already holds the key."""

    code = "X_JOB_DUPLICATE"

    def __init__(self, *, job: str, job_id: object, state: str) -> None:
        self.job_id = str(job_id)
        super().__init__(
            cause=f'a live run of job "{job}" holds this key: {job_id}, {state}',
            fix=f"manage.py jobs show {job_id}",
        )


class JobNotFound(UltimateJobsError):
    """No job of this id exists in the asked tenant."""

    code = "X_JOB_NOT_FOUND"

    def __init__(self, *, job_id: object) -> None:
        super().__init__(
            cause=f"no job has the id {job_id} within the asked tenant",
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
            cause=f'job "{job}" returned with a transaction open on {_listing(aliases)}, '
            "which was rolled back",
            fix=f'write it inside: with transaction.atomic(using="{sorted(aliases)[0]}"):',
        )


class JobsSchema(UltimateJobsError):
    """The database lacks what this release needs, or still enforces what it replaced."""

    code = "X_JOBS_SCHEMA"

    def __init__(self, *, detail: str, alias: str) -> None:
        database = "" if alias == "default" else f" --database {alias}"
        super().__init__(
            cause=f'the database "{alias}" is not at this release\'s schema: {detail}',
            fix=f"manage.py migrate ultimate_jobs{database}",
        )


class EnqueueSerialization(UltimateJobsError):
    """An enqueue above READ COMMITTED met a concurrent one; retrying the transaction helps."""

    code = "X_ENQUEUE_SERIALIZATION"
    retriable = True

    def __init__(self, *, job: str, isolation: str) -> None:
        super().__init__(
            cause=f'job "{job}" met a concurrent enqueue of its key that this '
            f"{isolation} transaction cannot see; nothing was written",
            fix="run the whole transaction again",
        )


class EnqueueContended(UltimateJobsError):
    """An enqueue lost every race for its key within the retry bound."""

    code = "X_ENQUEUE_CONTENDED"
    retriable = True

    def __init__(self, *, job: str, tries: int) -> None:
        super().__init__(
            cause=f'job "{job}": {tries} times its key was held when inserting and free when '
            "looking; nothing was written",
            fix="call enqueue() again",
        )


class EnqueueAliasAmbiguous(UltimateJobsError):
    """Two aliases have an open transaction and neither is the queue's."""

    code = "X_ENQUEUE_ALIAS_AMBIGUOUS"

    def __init__(self, *, job: str, aliases: Sequence[str]) -> None:
        super().__init__(
            cause=f'job "{job}" was enqueued with open transactions on '
            f"{_listing(aliases)}, and none of them holds the queue",
            fix=f'name the one to commit with: .using(alias="{min(aliases)}")',
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


class DriverUnknown(UltimateJobsError):
    """ULTIMATE_JOBS["DRIVER"] names no driver."""

    code = "X_DRIVER_UNKNOWN"

    def __init__(self, *, driver: str, known: Iterable[str], problem: str = "") -> None:
        super().__init__(
            cause=f'ULTIMATE_JOBS["DRIVER"] is {driver!r}, which is none of {_listing(known)} '
            f"and no importable driver{': ' + problem if problem else ''}",
            fix='set ULTIMATE_JOBS = {"DRIVER": "postgres"} in the settings',
        )


class DriverNotImplemented(UltimateJobsError):
    """The driver exists in name only."""

    code = "X_DRIVER_NOT_IMPLEMENTED"

    def __init__(self, *, driver: str) -> None:
        super().__init__(
            cause=f'the driver "{driver}" is not built yet',
            fix='set ULTIMATE_JOBS = {"DRIVER": "postgres"} in the settings',
        )


class DriverUnsupported(UltimateJobsError):
    """The driver cannot do what was asked."""

    code = "X_DRIVER_UNSUPPORTED"

    def __init__(self, *, driver: str, feature: str) -> None:
        super().__init__(
            cause=f'the driver "{driver}" does not support {feature}',
            fix='set ULTIMATE_JOBS = {"DRIVER": "postgres"} in the settings',
        )


class SettingUnknown(UltimateJobsError):
    """ULTIMATE_JOBS has a key that nothing reads."""

    code = "X_SETTING_UNKNOWN"

    def __init__(self, *, key: str, nearest: str | None, known: Iterable[str]) -> None:
        super().__init__(
            cause=f'ULTIMATE_JOBS["{key}"] is read by nothing (known: {_listing(known)})',
            fix=f'rename the key to "{nearest}"' if nearest else f'remove "{key}"',
        )


class SettingInvalid(UltimateJobsError):
    """A setting has a value of the wrong type or range."""

    code = "X_SETTING_INVALID"

    def __init__(self, *, key: str, problem: str, example: str) -> None:
        super().__init__(
            cause=f'ULTIMATE_JOBS["{key}"] {problem}',
            fix=f'set ULTIMATE_JOBS = {{"{key}": {example}}} in the settings',
        )


class ArgumentInvalid(UltimateJobsError):
    """A command was given an argument it cannot use."""

    code = "X_ARGUMENT_INVALID"

    def __init__(self, *, argument: str, problem: str, fix: str) -> None:
        super().__init__(cause=f"{argument} {problem}", fix=fix)


class DatabaseUnavailable(UltimateJobsError):
    """The database cannot be reached."""

    code = "X_DATABASE_UNAVAILABLE"

    def __init__(self, *, alias: str, detail: str) -> None:
        super().__init__(
            cause=f'the database "{alias}" cannot be reached: {detail}',
            fix=f"manage.py check --database {alias}",
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


class DatabaseUnsupported(UltimateJobsError):
    """The tables of this app were to be made in a database that is not PostgreSQL."""

    code = "X_DATABASE_UNSUPPORTED"

    def __init__(self, *, alias: str, vendor: str) -> None:
        super().__init__(
            cause=f'the database "{alias}" is {vendor}, and the tables of ultimate_jobs '
            "are made of what only PostgreSQL has",
            fix=f'let allow_migrate("{alias}", "ultimate_jobs") of a router in '
            "DATABASE_ROUTERS return False",
        )


class MigrationLocked(UltimateJobsError):
    """A migration did not get its table lock within its tries; nothing was changed."""

    code = "X_MIGRATION_LOCKED"

    def __init__(
        self, *, tables: Sequence[str], mode: str, tries: int, holders: Sequence[int]
    ) -> None:
        sessions = ", ".join(str(pid) for pid in holders) or "ended by now"
        super().__init__(
            cause=f"{_listing(tables)} could not be locked in {mode} mode in {tries} tries, each "
            f"given up before others queue behind it (sessions that hold locks: {sessions})",
            fix="manage.py migrate ultimate_jobs",
        )


class MigrationIndexRefused(UltimateJobsError):
    """An index that the next step leans on is missing, invalid, or not the declared one."""

    code = "X_MIGRATION_INDEX_REFUSED"

    def __init__(self, *, index: str, table: str, problem: str, fix: str) -> None:
        super().__init__(cause=f"index {index} on {table} {problem}", fix=fix)


class MigrationKeysShared(UltimateJobsError):
    """Two tenants hold one (name, key), which the index of an earlier release cannot hold."""

    code = "X_MIGRATION_KEYS_SHARED"

    def __init__(self, *, shared: Sequence[tuple[str, str, Sequence[str]]], total: int) -> None:
        self.total = total
        listed = "; ".join(
            f"{name} {key!r} of {', '.join(repr(tenant) for tenant in tenants)}"
            for name, key, tenants in shared
        )
        more = f"; and {total - len(shared)} more" if total > len(shared) else ""
        super().__init__(
            cause="the index to go back to cannot hold a key that live jobs of several tenants "
            f"share ({total} in all): {listed}{more}"
            if shared
            else "two tenants held one key while the index to go back to was being built; "
            "by now they do not",
            fix=f"manage.py jobs ls --key {shlex.quote(shared[0][1])}"
            if shared
            else "manage.py migrate ultimate_jobs 0010",
        )
