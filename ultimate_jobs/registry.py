"""Name -> declared job. Declaring fills it; workers, screens and checks read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from ultimate_jobs.errors import JobNameTaken, JobUnknown, LimiterConflict
from ultimate_jobs.limits import JobLimits
from ultimate_jobs.payload import InputSchema
from ultimate_jobs.retry import Retry


@dataclass(frozen=True, slots=True)
class JobDefinition:
    """What a declaration says, without the handle that enqueues it.

    Attributes:
        key_for: computes the idempotency key from the validated inputs.
        is_async: the function is an ``async def``.
        timeout_ms: how long one attempt may run; ``None`` is without end.
        atomic: the body and its completion are one transaction.
        limits: how much of it may run at once.
        module_spec: the import that executed the declaration; ``None`` outside of one.
    """

    name: str
    func: Callable[..., Any]
    key_for: Callable[[Mapping[str, Any]], str]
    schema: InputSchema
    queue: str
    retry: Retry
    priority: int = 0
    is_async: bool = False
    aliases: tuple[str, ...] = ()
    timeout_ms: int | None = None
    atomic: bool = False
    limits: JobLimits = field(default_factory=JobLimits)
    module_spec: object = field(default=None, compare=False, repr=False)

    @property
    def place(self) -> str:
        """Where the function stands, as ``module:qualname``."""
        return f"{self.func.__module__}:{self.func.__qualname__}"

    def describe(self) -> dict[str, Any]:
        """Return the public projection; neither the key nor an input appears in it."""
        return {
            "name": self.name,
            "queue": self.queue,
            "retry": {"attempts": self.retry.attempts, "backoff": self.retry.backoff_name},
            # Steps are chosen while a body runs, so no declaration knows them.
            "steps": [],
            "idempotent": callable(self.key_for),
        }


@dataclass
class _Store:
    jobs: dict[str, JobDefinition] = field(default_factory=dict)
    lock: RLock = field(default_factory=RLock)


_store = _Store()


def register_job(definition: JobDefinition) -> None:
    """Add a declaration under its name and its aliases.

    A module that is imported again (autoreload) replaces its own declaration.

    Raises:
        JobNameTaken: another function declares one of the names.
        LimiterConflict: another job names one of its limiters and means another limit.
    """
    names = (definition.name, *definition.aliases)
    with _store.lock:
        for name in names:
            present = _store.jobs.get(name)
            if present is not None and not _is_imported_again(present, definition):
                raise JobNameTaken(name=name, first=present.place, second=definition.place)
        replaced = _store.jobs.get(definition.name)
        _check_limiters_agree(definition, replaced)
        for name, present in list(_store.jobs.items()):
            if present is replaced:
                del _store.jobs[name]
        _store.jobs.update(dict.fromkeys(names, definition))


def _is_imported_again(present: JobDefinition, definition: JobDefinition) -> bool:
    # Each import makes a spec of its own, so a second "def" of one name in one module shares it.
    return present.place == definition.place and (
        definition.module_spec is None or present.module_spec is not definition.module_spec
    )


def _check_limiters_agree(definition: JobDefinition, replaced: JobDefinition | None) -> None:
    mine = {one.prefix: one for one in definition.limits.limiters}
    for other in _store.jobs.values():
        if other is replaced:
            continue
        for its in other.limits.limiters:
            shared = mine.get(its.prefix)
            if shared is not None and not shared.limiter.agrees_with(its.limiter):
                raise LimiterConflict(limiter=its.name, first=other.place, second=definition.place)


def find_job(name: str) -> JobDefinition:
    """Return the declaration of a name or alias.

    Raises:
        JobUnknown: nothing here declares it.
    """
    definition = _store.jobs.get(name)
    if definition is None:
        raise JobUnknown(name=name, known=declared_names())
    return definition


def declared_names() -> tuple[str, ...]:
    """Return every name a worker of this process can run, aliases included, sorted."""
    with _store.lock:
        return tuple(sorted(_store.jobs))


def declared_jobs() -> list[JobDefinition]:
    """Return each declaration once, sorted by name."""
    with _store.lock:
        return [job for name, job in sorted(_store.jobs.items()) if name == job.name]


@contextmanager
def isolated_registry() -> Iterator[None]:
    """Give a test a registry of its own; what was declared before is back afterwards."""
    with _store.lock:
        before = dict(_store.jobs)
        _store.jobs.clear()
    try:
        yield
    finally:
        with _store.lock:
            _store.jobs.clear()
            _store.jobs.update(before)
