"""Refusals of limits: a limiter that cannot work, and two that share a name and disagree."""

from __future__ import annotations

from ultimate_jobs.errors.base import UltimateJobsError


class LimiterInvalid(UltimateJobsError):
    """A Limiter limits nothing, or has an argument of the wrong type or range."""

    code = "X_LIMITER_INVALID"

    def __init__(self, *, limiter: object, problem: str, sample: str) -> None:
        named = "a limiter" if limiter is None else f'limiter "{limiter}"'
        name = "" if limiter is None else f'"{limiter}", '
        super().__init__(cause=f"{named} {problem}", fix=f"write it as Limiter({name}{sample})")


class LimiterConflict(UltimateJobsError):
    """Two jobs name one limiter and mean different limits."""

    code = "X_LIMITER_CONFLICT"

    def __init__(self, *, limiter: str, first: str, second: str) -> None:
        super().__init__(
            cause=f'limiter "{limiter}" is declared by {first} and otherwise by {second}',
            fix=f'make one Limiter("{limiter}", ...) and give it to both jobs',
        )
