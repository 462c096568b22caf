"""One sample of every error, by code: the facts that an error page shows as its example."""

from __future__ import annotations

from ultimate_jobs import errors
from ultimate_jobs.errors import UltimateJobsError

JOB = "billing.jobs.send_invoice"
JOB_ID = "0198c2f4-7a10-7e51-9a52-3f8f2f6c1d20"
OTHER_ID = "0198c2f4-7a10-7e51-9a52-3f8f2f6c1d21"
WORKER = "0198c2f4-6b00-7c11-8d01-1b2c3d4e5f60"

_LISTED: tuple[UltimateJobsError, ...] = (
    errors.IdempotencyRequired(job=JOB, parameters=["invoice_id"]),
    errors.JobOptionInvalid(
        option="priority",
        problem=f'of job "{JOB}" is no whole number from -100 to 100',
        fix="use priority=5",
    ),
    errors.JobSignatureInvalid(
        job=JOB,
        problem='parameter "invoice" is annotated with Invoice, which lives in the database and '
        "not in a payload",
        fix="pass the primary key: invoice_id: int",
    ),
    errors.JobNameTaken(
        name="send_invoice",
        first="billing.jobs:send_invoice",
        second="reminders.jobs:send_invoice",
    ),
    errors.LimiterInvalid(limiter="smtp", problem="limits nothing", sample="global_=1"),
    errors.LimiterConflict(
        limiter="smtp", first="billing.jobs:send_invoice", second="reminders.jobs:send_reminder"
    ),
    errors.JobUnknown(name="send_invoise", known=["send_invoice", "send_reminder"]),
    errors.JobInputInvalid(
        job=JOB, problems=["invoice_id: Input should be a valid integer"], inputs="invoice_id=1"
    ),
    errors.JobPayloadInvalid(
        job=JOB,
        path="options.rows[2]",
        problem="is NaN or infinite",
        remedy="pass None instead",
    ),
    errors.JobPayloadTooLarge(job=JOB, size=1_500_000, limit=1_048_576),
    errors.JobKeyInvalid(
        job=JOB,
        what="key",
        problem="is 2000 bytes of UTF-8 and the limit is 1024",
        fix="shorten the key, for example to hashlib.sha256(value).hexdigest()",
    ),
    errors.JobDuplicate(job=JOB, job_id=JOB_ID, state="ready"),
    errors.JobNotFound(job_id=JOB_ID),
    errors.JobStateRefused(
        job_id=JOB_ID, state="running", verb="retry", allowed=["dead", "cancelled"]
    ),
    errors.JobFailed(job_id=JOB_ID, state="dead"),
    errors.ResultTimeout(job_id=JOB_ID, state="running", waited_seconds=30),
    errors.ResultInTransaction(job_id=JOB_ID, alias="default"),
    errors.ResultInvalid(job=JOB, path="result.rows[0]", problem="is a queryset"),
    errors.JobsSchema(detail='relation "x_jobs" does not exist', alias="default"),
    errors.QueueFull(job=JOB, queue="billing", depth=10_000, bound=10_000, asked=1),
    errors.EnqueueSerialization(job=JOB, isolation="repeatable read"),
    errors.EnqueueContended(job=JOB, tries=100),
    errors.EnqueueAliasAmbiguous(job=JOB, aliases=["reporting", "shop"]),
    errors.JobRowStatusUnknown(
        table="x_jobs", column="state", value="paused", known=["ready", "running", "completed"]
    ),
    errors.JobRowInvalid(table="x_jobs", column="payload", problem="is no JSON object", row=JOB_ID),
    errors.LeaseLost(job_id=JOB_ID, worker=WORKER, token=3),
    errors.AttemptTimedOut(job=JOB, seconds=30, stopped=True),
    errors.RetryLaterSpent(job_id=JOB_ID, limit=1000, what="deferrals"),
    errors.WorkerGone(job_id=JOB_ID, lost_leases=10),
    errors.TransactionLeftOpen(job=JOB, aliases=["default"]),
    errors.DriverUnknown(driver="postgrse", known=["memory", "nats", "postgres", "redis"]),
    errors.DriverNotImplemented(driver="redis"),
    errors.DriverUnsupported(driver="memory", feature="processes"),
    errors.SettingUnknown(key="THREAD", nearest="THREADS", known=["DRIVER", "THREADS"]),
    errors.SettingInvalid(
        key="THREADS", problem="is not a whole number from 1 to 256", example="8"
    ),
    errors.MiddlewareInvalid(
        middleware="shop.hooks.Trace",
        problem="returned NoneType from enqueue() and no list of 1 answers; the jobs were written, "
        "and stay unless the caller's transaction is rolled back",
        fix="let enqueue() return what proceed(requests) returned",
    ),
    errors.ArgumentInvalid(
        argument="--threads",
        problem="is not between 1 and 256",
        fix="manage.py runjobs --threads 8",
    ),
    errors.DatabaseUnavailable(alias="default", detail="connection refused"),
    errors.TaskUnbridged(task="billing.jobs.send_invoice"),
    errors.DatabaseUnsupported(alias="archive", vendor="sqlite"),
    errors.MigrationLocked(tables=["x_jobs"], mode="SHARE ROW EXCLUSIVE", tries=20, holders=[4711]),
    errors.MigrationIndexRefused(
        index="x_jobs_ready_idx",
        table="x_jobs",
        problem="is not the declared one",
        fix='manage.py dbshell -- -c "DROP INDEX CONCURRENTLY x_jobs_ready_idx"',
    ),
    errors.MigrationKeysShared(shared=[(JOB, "invoice:1001", ["acme", "globex"])], total=1),
)

SAMPLES: dict[str, UltimateJobsError] = {error.code: error for error in _LISTED}
