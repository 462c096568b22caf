"""Refusals at enqueue: an input, a key or a transaction that cannot be taken."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ultimate_jobs.errors.base import UltimateJobsError, listing


class JobInputInvalid(UltimateJobsError):
    """An input does not fit the job's annotations."""

    code = "X_JOB_INPUT_INVALID"

    def __init__(self, *, job: str, problems: Sequence[str], inputs: str) -> None:
        super().__init__(
            cause=f'job "{job}" refused its input: ' + "; ".join(problems),
            fix=f"call {job.rsplit('.', 1)[-1]}.enqueue({inputs})",
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

    def __init__(self, *, job: str | None, what: str, problem: str, fix: str) -> None:
        place = "" if job is None else f'job "{job}": '
        super().__init__(cause=f"{place}the {what} {problem}", fix=fix)


class JobDuplicate(UltimateJobsError):
    """A live job already holds the key."""

    code = "X_JOB_DUPLICATE"

    def __init__(self, *, job: str, job_id: object, state: str) -> None:
        self.job_id = str(job_id)
        super().__init__(
            cause=f'a live run of job "{job}" holds this key: {job_id}, {state}',
            fix=f"manage.py jobs show {job_id}",
        )


class QueueFull(UltimateJobsError):
    """As many jobs wait in the queue as QUEUES allows; nothing was written.

    Attributes:
        retriable: false where the list alone is longer than the bound, and never fits.
    """

    code = "X_QUEUE_FULL"
    retriable = True

    def __init__(self, *, job: str, queue: str, depth: int, bound: int, asked: int) -> None:
        self.queue, self.depth, self.bound, self.asked = queue, depth, bound, asked
        self.retriable = asked <= bound
        fix = f"manage.py runjobs --queues {shlex.quote(queue)}"
        if not self.retriable:
            fix = f'enqueue at most {bound} at a time, or raise QUEUES["{queue}"]["max_depth"]'
        super().__init__(
            cause=f'job "{job}": {depth} jobs wait in the queue "{queue}", {asked} more were to, '
            f"and QUEUES allows {bound}; nothing was written",
            fix=fix,
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
            f"{listing(aliases)}, and none of them holds the queue",
            fix=f'name the one to commit with: .using(alias="{min(aliases)}")',
        )
