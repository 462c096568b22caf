"""@job: a function with its options, and the handle that enqueues it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import update_wrapper
from typing import Any, Concatenate, Generic, Never, ParamSpec, TypeVar

from asgiref.sync import sync_to_async

from ultimate_jobs import conf, registry
from ultimate_jobs.errors import JobOptionInvalid, JobSignatureInvalid
from ultimate_jobs.identity import check_text, key_function
from ultimate_jobs.limits import Limiter, declared_limits
from ultimate_jobs.payload import InputSchema
from ultimate_jobs.registry import JobDefinition
from ultimate_jobs.retry import Retry
from ultimate_jobs.services import jobs
from ultimate_jobs.services.handles import RunHandle
from ultimate_jobs.services.options import EnqueueOptions, check_priority

P = ParamSpec("P")
R = TypeVar("R")

BodyKey = str | Callable[..., str]

# Seconds. A shorter attempt would end before its body is called.
SHORTEST_TIMEOUT = 0.01
LONGEST_TIMEOUT = 366 * 86_400


class Job(Generic[P, R]):
    """A declared job: enqueue it, or call it like the function it was.

    ``using()`` carries options, ``enqueue()`` carries inputs.
    """

    def __init__(
        self,
        definition: JobDefinition,
        func: Callable[Concatenate[Any, P], R],
        options: EnqueueOptions | None = None,
    ) -> None:
        # First: it copies the function's attributes, which may have the names of ours.
        update_wrapper(self, func)
        self.definition = definition
        self._func = func
        self._options = options or EnqueueOptions()

    @property
    def name(self) -> str:
        return self.definition.name

    def __call__(self, ctx: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the body here, without a queue."""
        return self._func(ctx, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<Job {self.name}>"

    def using(self, **options: Any) -> Job[P, R]:
        """Return a handle with some options replaced.

        Args:
            tenant: the tenant whose namespace the key lives in; ``""`` means none.
            run_after: an aware datetime, or a timedelta from the database's now.
            priority: -100 to 100, higher first.
            queue: another queue than the declared one.
            alias: the database connection to write on.
            on_conflict: ``existing`` answers the live job, ``error`` raises ``JobDuplicate``,
                ``rerun`` makes exactly one more run follow a running one.
            traceparent: a W3C trace context to continue.

        Raises:
            JobOptionInvalid, JobKeyInvalid: an option is unknown, or of the wrong type or range.
        """
        known = EnqueueOptions.__dataclass_fields__
        for option in options:
            if option not in known:
                raise JobOptionInvalid(
                    option=option,
                    problem=f"is none that using() takes: {', '.join(known)}",
                    fix=f'call {self.name.rsplit(".", 1)[-1]}.using(tenant="...")',
                )
        return Job(self.definition, self._func, self._options.updated(self.name, options))

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> RunHandle:
        """Ask for one run, in the caller's own transaction.

        Raises:
            JobInputInvalid, JobPayloadInvalid, JobPayloadTooLarge, JobKeyInvalid: nothing was
                written, and the caller's transaction is still usable.
            JobDuplicate: with ``on_conflict="error"``.
            EnqueueSerialization: above READ COMMITTED; run the transaction again.
            EnqueueAliasAmbiguous: name the connection with ``using(alias=)``.
        """
        inputs = self._inputs(args, kwargs)
        return jobs.enqueue(self.definition, self._options, [inputs])[0]

    def enqueue_many(self, inputs: Iterable[Mapping[str, Any]]) -> list[RunHandle]:
        """Ask for one run per mapping of inputs, one round trip per thousand.

        A key that is held, or that comes twice, is answered and not an error. More than a
        thousand are one transaction.

        Raises:
            As ``enqueue``; one refused input refuses all before anything is written.
        """
        if isinstance(inputs, str | Mapping) or not isinstance(inputs, Iterable):
            raise _no_list(self.definition, inputs)
        return jobs.enqueue(self.definition, self._options, inputs)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> RunHandle:
        """The async twin of ``enqueue``."""
        return await sync_to_async(self.enqueue)(*args, **kwargs)

    async def aenqueue_many(self, inputs: Iterable[Mapping[str, Any]]) -> list[RunHandle]:
        """The async twin of ``enqueue_many``."""
        return await sync_to_async(self.enqueue_many)(inputs)

    def describe(self) -> dict[str, Any]:
        """Return ``{name, queue, retry, steps, idempotent}``; never the key nor an input."""
        return self.definition.describe()

    def _inputs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        names = self.definition.schema.parameters
        if len(args) > len(names):
            problem = f"input: {len(args)} positional inputs for {len(names)} parameters"
            raise self.definition.schema.invalid([problem])
        given = dict(zip(names, args, strict=False))
        twice = sorted(set(given) & set(kwargs))
        if twice:
            raise self.definition.schema.invalid([f"{twice[0]}: given twice"])
        return {**given, **kwargs}


def job(
    *misplaced: Never,
    key: BodyKey | None = None,
    name: str | None = None,
    queue: str | None = None,
    retry: Retry | None = None,
    priority: int = 0,
    aliases: Sequence[str] = (),
    timeout: float | timedelta | None = None,
    atomic: bool = False,
    concurrency: int | None = None,
    limits: Sequence[Limiter] = (),
    serial: BodyKey | None = None,
) -> Callable[[Callable[Concatenate[Any, P], R]], Job[P, R]]:
    """Declare a function as a job.

    Args:
        key: a format string over the inputs, or a callable that takes them by name. Among the live
            jobs of one name and tenant a key exists once.
        name: the stored name; by default ``module.function``.
        queue: by default the setting ``DEFAULT_QUEUE``.
        retry: by default ``Retry()``.
        priority: -100 to 100, higher first.
        aliases: earlier names, under which queued jobs still run here.
        timeout: how long one attempt may run, in seconds or as a timedelta; by default without
            end.
        atomic: run the body and its completion as one transaction on the database of the jobs,
            so that what the body writes there happens exactly once. Not for an ``async def``.
        concurrency: how many run at once, in all workers and tenants.
        limits: the limiters that every run keeps.
        serial: a format string over the inputs, or a callable that takes them by name. The jobs
            of one tenant with one serial key run one after the other, in the order they came.

    Raises:
        IdempotencyRequired: there is no key.
        JobSignatureInvalid, JobOptionInvalid, JobKeyInvalid: the declaration cannot work.
        JobNameTaken: another function has the name.
        LimiterConflict: another job names one of its limiters and means another limit.
    """

    if misplaced:
        raise _misplaced(misplaced[0])

    def declare(func: Callable[Concatenate[Any, P], R]) -> Job[P, R]:
        _check_function(func)
        stored_name = name if name is not None else f"{func.__module__}.{func.__qualname__}"
        check_text(stored_name, "name", stored_name)
        schema = InputSchema(job=stored_name, func=func)
        is_async = inspect.iscoroutinefunction(func)
        definition = JobDefinition(
            name=stored_name,
            func=func,
            key_for=key_function(stored_name, key, schema.parameters),
            schema=schema,
            queue=_check_queue(stored_name, queue),
            retry=_check_retry(stored_name, Retry() if retry is None else retry),
            priority=check_priority(stored_name, priority),
            is_async=is_async,
            aliases=_check_aliases(stored_name, aliases),
            timeout_ms=_check_timeout(stored_name, timeout),
            atomic=_check_atomic(stored_name, atomic, is_async),
            limits=declared_limits(
                stored_name,
                schema.parameters,
                concurrency=concurrency,
                limits=limits,
                serial=serial,
            ),
            module_spec=func.__globals__.get("__spec__"),
        )
        registry.register_job(definition)
        return Job(definition, func)

    return declare


def _misplaced(given: object) -> JobOptionInvalid:
    """Return the refusal of ``@job`` without parentheses, or of a key without its name."""
    if isinstance(given, str):
        sample, problem = given, 'is given without its name: "key=" is missing'
    elif inspect.isfunction(given):
        inputs = list(inspect.signature(given).parameters)[1:]
        sample = given.__name__ + "".join(f":{{{one}}}" for one in inputs[:1])
        problem = f'of job "{given.__module__}.{given.__qualname__}" is missing: @job stands '
        problem += "without parentheses"
    else:
        sample, problem = "...", f"is missing: @job was given a {type(given).__name__} in its place"
    fix = f"write @job(key={json.dumps(sample, ensure_ascii=False)})"
    return JobOptionInvalid(option="key", problem=problem, fix=fix)


def _no_list(definition: JobDefinition, given: object) -> JobOptionInvalid:
    inputs = ", ".join(f'"{one}": ...' for one in definition.schema.parameters)
    short = definition.name.rsplit(".", 1)[-1]
    return JobOptionInvalid(
        option="inputs",
        problem=f'of job "{definition.name}" is {type(given).__name__}, not a list of mappings',
        fix=f"call {short}.enqueue_many([{{{inputs}}}])",
    )


def _check_queue(name: str, queue: str | None) -> str:
    return check_text(name, "queue", conf.settings().default_queue if queue is None else queue)


def _check_function(func: object) -> None:
    if not inspect.isfunction(func):
        problem = f"a job is a function, and this is a {type(func).__name__}"
    elif func.__name__ == "<lambda>":
        problem = "a lambda has no name of its own"
    elif inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
        problem = "calling a generator function runs nothing of its body"
    else:
        return
    place = f"{getattr(func, '__module__', '?')}.{getattr(func, '__qualname__', repr(func))}"
    raise JobSignatureInvalid(
        job=place, problem=problem, fix="decorate a plain function at module level"
    )


def _check_aliases(name: str, aliases: object) -> tuple[str, ...]:
    if isinstance(aliases, str) or not isinstance(aliases, Iterable):
        raise JobOptionInvalid(
            option="aliases",
            problem=f'of job "{name}" is {type(aliases).__name__}, not a list of names',
            fix='declare it as @job(aliases=["old.name"], ...)',
        )
    return tuple(check_text(name, "name", alias) for alias in aliases)


def _check_retry(name: str, retry: object) -> Retry:
    if isinstance(retry, Retry):
        return retry
    raise JobOptionInvalid(
        option="retry",
        problem=f'of job "{name}" is {type(retry).__name__}, not Retry',
        fix="declare it as @job(retry=Retry(attempts=3), ...)",
    )


def _check_timeout(name: str, timeout: object) -> int | None:
    if timeout is None:
        return None
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if (
        isinstance(seconds, int | float)
        and not isinstance(seconds, bool)
        and SHORTEST_TIMEOUT <= seconds <= LONGEST_TIMEOUT
    ):
        return round(seconds * 1000)
    raise JobOptionInvalid(
        option="timeout",
        problem=f'of job "{name}" is no duration between {SHORTEST_TIMEOUT * 1000:g} ms and '
        f"{LONGEST_TIMEOUT // 86_400} days",
        fix="declare it as @job(timeout=300, ...)",
    )


def _check_atomic(name: str, atomic: object, is_async: bool) -> bool:
    if not isinstance(atomic, bool):
        problem, fix = f"is {type(atomic).__name__}, not bool", "declare it as @job(atomic=True)"
    elif atomic and is_async:
        problem = "does not go with async def: Django's transactions belong to one thread"
        fix = "declare it with def"
    else:
        return atomic
    raise JobOptionInvalid(option="atomic", problem=f'of job "{name}" {problem}', fix=fix)


def describe() -> list[dict[str, Any]]:
    """Return the public projection of every declared job, sorted by name."""
    return [definition.describe() for definition in registry.declared_jobs()]
