"""Who has just made work tells the workers that listen."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ultimate_jobs import conf
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.states import JobState
from ultimate_jobs.types import EnqueueAnswer, EnqueueRequest


def announce(driver: Driver, queues: Collection[str]) -> None:
    """Tell of work that is due in these queues, once it has committed; fails nobody."""
    if queues and driver.supports_wakeups and conf.settings().listen:
        driver.wakeups.announce(queues)


def announce_new(
    driver: Driver, requests: Sequence[EnqueueRequest], answers: Sequence[EnqueueAnswer]
) -> None:
    """Tell of what an enqueue stored and is due: not of a held key, nor of the future."""
    pairs = zip(requests, answers, strict=True)
    announce(driver, {request.queue for request, answer in pairs if _is_due_and_new(answer)})


def _is_due_and_new(answer: EnqueueAnswer) -> bool:
    return answer.deduped is False and answer.state is JobState.READY
