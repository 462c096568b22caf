"""Limiter: how much may run, or start in a time, at once; and the rights a job needs to begin."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from ultimate_jobs.conf import MOST_CONCURRENCY
from ultimate_jobs.errors import (
    JobKeyInvalid,
    JobOptionInvalid,
    LimiterInvalid,
    UltimateJobsError,
)
from ultimate_jobs.identity import KeyFunction, check_text, key_function, key_of_stored

LONGEST_PERIOD = 86_400 * 365
# Three of them, and the words between, stay below a third of what an index entry may hold.
LONGEST_PART = 250
# What no encoded key can be: the key of inputs from which none can be computed.
NO_KEY = "?"
RATE_SAMPLE = "rate=10, period=60"
KEY_SAMPLE = 'per_key=1, key="{...}"'


@dataclass(frozen=True, slots=True)
class Limiter:
    """A limit that one job keeps, or several jobs that name it alike.

    ``global_`` counts over all tenants. Everything else counts within one tenant: two tenants never
    share a slot of ``per_tenant`` or ``per_key``. A ``rate`` counts starts in the narrowest scope
    that is named: per key where there is a ``key``, else per tenant where there is ``per_tenant``,
    else over all.

    Args:
        name: shared by every job that names it; by default the limiter is the job's own.
        global_: how many run at once, 1 to 10,000.
        per_tenant: how many run at once for one tenant; the tenantless jobs count as one.
        per_key: how many run at once for one ``key``.
        key: a format string over the inputs, or a callable that takes them by name.
        rate: how many start in any window of ``period``, 1 to 10,000.
        period: seconds or a timedelta, from a millisecond to a year.

    Raises:
        LimiterInvalid: it limits nothing, or an argument has the wrong type or range.
    """

    name: str | None = None
    _: KW_ONLY
    global_: int | None = None
    per_tenant: int | None = None
    per_key: int | None = None
    key: str | Callable[..., str] | None = None
    rate: int | None = None
    period: float | timedelta | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            self._check_name()
        for option in ("global_", "per_tenant", "per_key", "rate"):
            self._check_count(option)
        if (self.rate is None) is not (self.period is None):
            raise self._refused("has one of rate and period, which belong together", RATE_SAMPLE)
        if self.period is not None:
            self._check_period()
        if self.per_key is not None and self.key is None:
            raise self._refused("has per_key and no key", KEY_SAMPLE)
        if self.key is not None and self.per_key is None and self.rate is None:
            raise self._refused("has a key that nothing counts by", KEY_SAMPLE)
        if self.global_ is self.per_tenant is self.per_key is self.rate is None:
            raise self._refused("limits nothing", "global_=1")

    @property
    def period_ms(self) -> int | None:
        """The period in milliseconds."""
        if self.period is None:
            return None
        given = self.period
        seconds = given.total_seconds() if isinstance(given, timedelta) else given
        return round(seconds * 1000)

    def agrees_with(self, other: Limiter) -> bool:
        """Say whether two jobs that name one limiter mean the same; their keys may differ."""
        mine, its = (
            (one.global_, one.per_tenant, one.per_key, one.rate, one.period_ms, one.key is None)
            for one in (self, other)
        )
        return mine == its

    def bound_to(self, job: str, parameters: tuple[str, ...], *, nth: int = 1) -> BoundLimiter:
        """Return the limiter of one job.

        Args:
            nth: which of the job's limiters without a name it is.

        Raises:
            JobOptionInvalid: its key names what is no input of the job.
        """
        key_for = None
        if self.key is not None:
            key_for = key_function(job, self.key, parameters, option="limits")
        if self.name is not None:
            return BoundLimiter(self, key_for, prefix=f"limiter:{encoded(self.name)}")
        # A limiter without a name must not meet another that is named like the job.
        prefix = f"job-limiter:{encoded(job)}" + (f":{nth}" if nth > 1 else "")
        return BoundLimiter(replace(self, name=job), key_for, prefix=prefix)

    def _check_name(self) -> None:
        try:
            check_text(None, "name", self.name)
        except JobKeyInvalid as error:
            problem = f"cannot be called so: {error.cause}"
            sample = '"smtp", global_=1'
            raise LimiterInvalid(limiter=None, problem=problem, sample=sample) from None

    def _check_count(self, option: str) -> None:
        value = getattr(self, option)
        if value is None:
            return
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number or not 1 <= value <= MOST_CONCURRENCY:
            problem = f"has a {option} that is no whole number from 1 to {MOST_CONCURRENCY}"
            samples = {"per_key": KEY_SAMPLE, "rate": RATE_SAMPLE}
            raise self._refused(problem, samples.get(option, f"{option}=1"))

    def _check_period(self) -> None:
        given = self.period
        is_duration = isinstance(given, int | float | timedelta) and not isinstance(given, bool)
        seconds: Any = given.total_seconds() if isinstance(given, timedelta) else given
        if not is_duration or not 0.001 <= seconds <= LONGEST_PERIOD:
            problem = "has a period that is neither seconds nor a timedelta, up to a year"
            raise self._refused(problem, RATE_SAMPLE)

    def _refused(self, problem: str, sample: str) -> LimiterInvalid:
        return LimiterInvalid(limiter=self.name, problem=problem, sample=sample)


@dataclass(frozen=True, slots=True)
class Scope:
    """One right that a job needs to begin: a slot of so many.

    Attributes:
        name: the slots' name; scopes of one name are one limit.
        most: how many valid slots there may be.
        period_ms: a start counts for so long; ``None`` is a slot held while the job runs.
        label: what an operator reads.
    """

    name: str
    most: int
    period_ms: int | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class BoundLimiter:
    """A limiter with its name, and the key of one job's inputs."""

    limiter: Limiter
    key_for: KeyFunction | None
    prefix: str

    @property
    def name(self) -> str:
        return str(self.limiter.name)

    def fixed_scopes(self) -> tuple[Scope, ...]:
        """Return the rights that are the same whatever the inputs and the tenant."""
        one, found = self.limiter, []
        if one.global_ is not None:
            found.append(Scope(self.prefix, one.global_, label=f'limiter "{self.name}"'))
        if one.rate is not None and self.key_for is None and one.per_tenant is None:
            found.append(self._rate("", ""))
        return tuple(found)

    def scopes(self, tenant: str | None, inputs: Mapping[str, Any] | None) -> tuple[Scope, ...]:
        """Return every right one job needs.

        Args:
            inputs: ``None`` where the stored ones cannot be read: such jobs share one key.
        """
        one, found = self.limiter, list(self.fixed_scopes())
        where, words = f":tenant:{encoded(tenant or '')}", f' of tenant "{tenant or ""}"'
        if one.per_tenant is not None:
            label = f'limiter "{self.name}"{words}'
            found.append(Scope(f"{self.prefix}{where}", one.per_tenant, label=label))
        if self.key_for is not None:
            key = self._key(inputs)
            where, words = f"{where}:key:{key}", f"{words} and one key"
            if one.per_key is not None:
                label = f'limiter "{self.name}"{words}'
                found.append(Scope(f"{self.prefix}{where}", one.per_key, label=label))
        if one.rate is not None and (self.key_for is not None or one.per_tenant is not None):
            found.append(self._rate(where, words))
        return tuple(found)

    def check_key(self, job: str, inputs: Mapping[str, Any]) -> None:
        """Refuse inputs from which no key can be computed.

        Raises:
            JobKeyInvalid: the app's function raised, or returned no text.
        """
        if self.key_for is None:
            return
        try:
            key: object = self.key_for(inputs)
        except Exception as error:
            # The error's own words may quote an input.
            kind = "" if isinstance(error, UltimateJobsError) else f" ({type(error).__name__})"
            problem = f"cannot be computed from these inputs{kind}"
        else:
            if isinstance(key, str):
                return
            problem = f"is {type(key).__name__}, not str"
        raise JobKeyInvalid(
            job=job,
            what=f'key of limiter "{self.name}"',
            problem=problem,
            fix=f'give limiter "{self.name}" a key that is a str for every input',
        ) from None

    def _rate(self, where: str, words: str) -> Scope:
        one = self.limiter
        label = f'rate of limiter "{self.name}"{words}'
        return Scope(f"rate:{self.prefix}{where}", one.rate or 1, one.period_ms, label)

    def _key(self, inputs: Mapping[str, Any] | None) -> str:
        key = key_of_stored(f'the key of limiter "{self.name}"', self.key_for, inputs)
        return NO_KEY if key is None else encoded(key)


@dataclass(frozen=True, slots=True)
class JobLimits:
    """Everything that bounds how much of one job runs, but for its queue's limit.

    Attributes:
        concurrency: how many run at once, in all workers and tenants.
        serial_for: computes the lane in which jobs run one after the other.
    """

    concurrency: int | None = None
    limiters: tuple[BoundLimiter, ...] = ()
    serial_for: KeyFunction | None = None

    def __bool__(self) -> bool:
        return any(one for one in (self.limiters, self.concurrency, self.serial_for))

    @property
    def reads_inputs(self) -> bool:
        """Whether a limit depends on the inputs."""
        return any(one.key_for is not None for one in self.limiters)

    def check_keys(self, job: str, inputs: Mapping[str, Any]) -> None:
        """Refuse inputs from which a limiter's key cannot be computed.

        Raises:
            JobKeyInvalid: the key of one limiter; it is named.
        """
        for one in self.limiters:
            one.check_key(job, inputs)

    def fixed_scopes(self, job: str) -> tuple[Scope, ...]:
        """Return the rights that are the same for every run of the job."""
        own: tuple[Scope, ...] = ()
        if self.concurrency is not None:
            own = (Scope(f"job:{encoded(job)}", self.concurrency, label=f"concurrency of {job}"),)
        return own + tuple(scope for one in self.limiters for scope in one.fixed_scopes())

    def scopes(
        self,
        job: str,
        *,
        tenant: str | None,
        lane: str | None,
        inputs: Mapping[str, Any] | None,
    ) -> tuple[Scope, ...]:
        """Return every right that one run needs.

        Args:
            lane: its stored serial key; ``None`` where it came before the declaration had one.
            inputs: ``None`` where the stored ones cannot be read.
        """
        found = [*JobLimits(self.concurrency).fixed_scopes(job)]
        for one in self.limiters:
            found += one.scopes(tenant, inputs)
        if self.serial_for is not None:
            lane = lane or serial_key(tenant, self._lane(inputs))
            found.append(Scope(f"serial:{lane}", 1, label="lane of its serial key"))
        return tuple(found)

    def _lane(self, inputs: Mapping[str, Any] | None) -> str:
        lane = key_of_stored("a serial key", self.serial_for, inputs)
        return NO_KEY if lane is None else lane


def queue_scope(queue: str, concurrency: int) -> Scope:
    """Return the right that every job of a limited queue needs."""
    return Scope(f"queue:{encoded(queue)}", concurrency, label=f'concurrency of queue "{queue}"')


def declared_limits(
    job: str,
    parameters: tuple[str, ...],
    *,
    concurrency: object,
    limits: object,
    serial: object,
) -> JobLimits:
    """Return what a declaration says of its limits.

    Raises:
        JobOptionInvalid: an option has the wrong type or range, or names what is no input.
    """
    return JobLimits(
        concurrency=_concurrency(job, concurrency),
        limiters=_limiters(job, limits, parameters),
        serial_for=None if serial is None else _serial(job, serial, parameters),
    )


def _concurrency(job: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_CONCURRENCY:
        raise JobOptionInvalid(
            option="concurrency",
            problem=f'of job "{job}" is no whole number from 1 to {MOST_CONCURRENCY}',
            fix="use concurrency=10",
        )
    return value


def _limiters(job: str, given: object, parameters: tuple[str, ...]) -> tuple[BoundLimiter, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise _limits_refused(job, f"is {type(given).__name__}, not a list of limiters")
    bound: list[BoundLimiter] = []
    unnamed = 0
    for one in given:
        if not isinstance(one, Limiter):
            raise _limits_refused(job, f"holds {type(one).__name__}, which is no Limiter")
        unnamed += one.name is None
        bound.append(one.bound_to(job, parameters, nth=unnamed))
        if sum(other.prefix == bound[-1].prefix for other in bound) > 1:
            raise _limits_refused(job, f'names limiter "{one.name}" twice')
    return tuple(bound)


def _limits_refused(job: str, problem: str) -> JobOptionInvalid:
    fix = "declare it as @job(limits=[Limiter(global_=1)], ...)"
    return JobOptionInvalid(option="limits", problem=f'of job "{job}" {problem}', fix=fix)


def _serial(job: str, value: object, parameters: tuple[str, ...]) -> KeyFunction:
    if value == "":
        raise JobOptionInvalid(
            option="serial",
            problem=f'of job "{job}" is empty, and would put every run into one lane unnamed',
            fix=f'write a lane: serial="{job.rsplit(".", 1)[-1]}"',
        )
    return key_function(job, value, parameters, option="serial")


def encoded(part: str) -> str:
    """Return a part of a slot's name, so that no two parts can be read as one or as another."""
    quoted = quote(part, safe="", errors="surrogatepass")
    if len(quoted) <= LONGEST_PART:
        return quoted
    # No quoted text holds two percent signs in a row.
    return f"{quoted[:100]}%%{hashlib.sha256(part.encode(errors='surrogatepass')).hexdigest()}"


def serial_key(tenant: str | None, key: str) -> str:
    """Return the lane of a job as it is stored: within one tenant, whatever the job's name."""
    return f"{encoded(tenant or '')}:{key}"
