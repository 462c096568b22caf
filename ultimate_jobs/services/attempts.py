"""What an attempt that ended writes to its job; decisions only, nothing is written here."""

from __future__ import annotations

from dataclasses import replace

from ultimate_jobs.errors import ResultInvalid
from ultimate_jobs.payload import dump_result
from ultimate_jobs.retry import Retry
from ultimate_jobs.services.context import JobContext
from ultimate_jobs.services.failures import describe_failure, shorten
from ultimate_jobs.types import Claim, Completion, Nack

Ending = Completion | Nack | None
"""What to write; ``None`` where the claim was lost and nothing may be written."""


def complete(
    claim: Claim, context: JobContext, value: object, *, job: str, max_bytes: int
) -> Ending:
    """Return what a body that returned leaves behind.

    A result that cannot be stored ends the job ``dead`` at once: its effects have happened, so
    another attempt would only repeat them.
    """
    if context.interrupted:
        # The body swallowed what check() raised.
        return _interrupted(claim, context)
    try:
        result = dump_result(job, value, max_bytes=max_bytes)
    except ResultInvalid as error:
        return bury(claim, error)
    except BaseException as error:
        # The value is foreign: its methods may raise anything.
        return bury(claim, ResultInvalid(job=job, path="result", problem=_could_not(error)))
    return Completion(claim.id, claim.token, result)


def fail(claim: Claim, context: JobContext, error: BaseException, *, retry: Retry) -> Ending:
    """Return what a body that raised leaves behind.

    Only what ``check()`` raised is an interruption. All else is an error: a JobCancelled of the
    body's own making, and SystemExit, KeyboardInterrupt, GeneratorExit, CancelledError, which end
    the attempt and not the worker.
    """
    if context.interrupted:
        return _interrupted(claim, context)
    if claim.attempt >= claim.max_attempts:
        return bury(claim, error)
    delay_ms, note = _wait(retry, claim.attempt)
    failure = describe_failure(error, note=note)
    return Nack(claim.id, claim.token, delay_ms=delay_ms, failure=failure)


def bury(claim: Claim, error: BaseException) -> Nack:
    """Return the end of a job that is not tried again."""
    return Nack(claim.id, claim.token, dead_letter=True, failure=describe_failure(error))


def unstorable(claim: Claim, error: BaseException) -> ResultInvalid:
    """Return the error of a result that passed every check here and that the database refused."""
    problem = f"the database refused: {shorten(str(error), 500)}"
    return ResultInvalid(job=claim.name, path="result", problem=problem)


def hand_back(claim: Claim, *, delay_ms: int = 0) -> Nack:
    """Return the end of a claim whose body did not end: the attempt does not count."""
    return Nack(claim.id, claim.token, counts_as_attempt=False, delay_ms=delay_ms)


def _interrupted(claim: Claim, context: JobContext) -> Ending:
    # The driver makes it cancelled: it knows who asked, and when.
    return hand_back(claim) if context.cancelled else None


def _wait(retry: Retry, attempt: int) -> tuple[int, str]:
    try:
        return retry.wait_ms(attempt), ""
    except BaseException as error:
        # The app's own backoff must not lose the failure.
        longest = replace(retry, backoff="fixed", delay=retry.max_delay)
        note = f"and its backoff {_could_not(error)}, so the longest delay was taken"
        return longest.wait_ms(attempt), note


def _could_not(error: BaseException) -> str:
    return f"raised {describe_failure(error).error_class}"
