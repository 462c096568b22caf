"""What an attempt that ended writes to its job; decisions only, nothing is written here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import FrameType

from ultimate_jobs import conf
from ultimate_jobs.errors import AttemptTimedOut, ResultInvalid, RetryLaterSpent
from ultimate_jobs.payload import dump_result
from ultimate_jobs.retry import Retry, RetryLater
from ultimate_jobs.services.context import JobContext
from ultimate_jobs.services.failures import MAX_REASON, describe_failure, describe_stack, shorten
from ultimate_jobs.types import Claim, Completion, Deferral, Nack


@dataclass(frozen=True, slots=True)
class Committed:
    """The body's own transaction has completed the job; nothing is left to write."""


@dataclass(frozen=True, slots=True)
class Doubtful:
    """The transaction that completed the job broke at its commit, which may stand all the same."""

    nack: Nack


Ending = Completion | Nack | Committed | Doubtful | None
"""What to write; ``None`` where the claim was lost and nothing may be written."""


def complete(
    claim: Claim,
    context: JobContext,
    value: object,
    *,
    job: str,
    max_bytes: int,
    retry: Retry,
) -> Completion | Nack | None:
    """Return what a body that returned leaves behind.

    A result that cannot be stored ends the job ``dead`` at once: its effects have happened, so
    another attempt would only repeat them.
    """
    if context.interrupted:
        # The body swallowed what told it to stop.
        return _interrupted(claim, context, retry)
    try:
        result = dump_result(job, value, max_bytes=max_bytes)
    except ResultInvalid as error:
        return bury(claim, error)
    except BaseException as error:
        # The value is foreign: its methods may raise anything.
        return bury(claim, ResultInvalid(job=job, path="result", problem=_could_not(error)))
    return Completion(claim.id, claim.token, result)


def fail(claim: Claim, context: JobContext, error: BaseException, *, retry: Retry) -> Nack | None:
    """Return what a body that raised leaves behind.

    Only what told the body to stop is an interruption. All else is an error: a JobCancelled of the
    body's own making, and SystemExit, KeyboardInterrupt, GeneratorExit, CancelledError, which end
    the attempt and not the worker.
    """
    if context.interrupted:
        return _interrupted(claim, context, retry, error)
    if isinstance(error, RetryLater):
        return _defer(claim, error, retry)
    if retry.discards(error):
        failure = describe_failure(error)
        return Nack(claim.id, claim.token, discard=True, failure=failure)
    if retry.gives_up_on(error):
        return bury(claim, error)
    return again(claim, error, retry=retry)


def again(claim: Claim, error: BaseException, *, retry: Retry) -> Nack:
    """Return the end of an attempt that failed, whichever errors the job retries on.

    For what is no error of the body's own: an input that cannot be decoded here, a timeout.
    """
    if claim.attempt >= claim.max_attempts:
        return bury(claim, error)
    delay_ms, note = _wait(retry, claim.attempt)
    failure = describe_failure(error, note=note)
    return Nack(claim.id, claim.token, delay_ms=delay_ms, failure=failure)


def outlive(claim: Claim, seconds: float, frame: FrameType | None, *, retry: Retry) -> Nack:
    """Return the end of an attempt whose body runs on after its timeout.

    Args:
        frame: where the body is now, for the failure's traceback.
    """
    error = AttemptTimedOut(job=claim.name, seconds=seconds, stopped=False)
    nack = again(claim, error, retry=retry)
    if frame is None or nack.failure is None:
        return nack
    return replace(nack, failure=replace(nack.failure, traceback=describe_stack(frame)))


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


def _interrupted(
    claim: Claim, context: JobContext, retry: Retry, error: BaseException | None = None
) -> Nack | None:
    if context.lost:
        return None
    seconds = context.timed_out
    if seconds is not None:
        timed_out = AttemptTimedOut(job=claim.name, seconds=seconds, stopped=True)
        # Where the body was when it was told, or what it raised on its way out.
        timed_out.__traceback__ = None if error is None else error.__traceback__
        return again(claim, timed_out, retry=retry)
    # The driver makes it cancelled: it knows who asked, and when.
    return hand_back(claim)


def _defer(claim: Claim, later: RetryLater, retry: Retry) -> Nack:
    limit = conf.settings().max_deferrals if retry.deferrals is None else retry.deferrals
    if later.counts and claim.attempt >= claim.max_attempts:
        spent = RetryLaterSpent(job_id=claim.id, limit=claim.max_attempts, what="attempts")
        return bury(claim, spent.with_traceback(later.__traceback__))
    spent = RetryLaterSpent(job_id=claim.id, limit=limit, what="deferrals")
    failure = describe_failure(spent.with_traceback(later.__traceback__))
    return Nack(
        claim.id,
        claim.token,
        counts_as_attempt=later.counts,
        delay_ms=later.delay_ms,
        deferral=Deferral(limit, shorten(later.reason, MAX_REASON), failure),
    )


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
