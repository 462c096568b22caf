"""Which limited jobs may start now: what each needs, what is free, and a choice that fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ultimate_jobs import conf
from ultimate_jobs.errors import UltimateJobsError
from ultimate_jobs.limits import Scope, queue_scope
from ultimate_jobs.records import JobRecord
from ultimate_jobs.registry import JobDefinition, find_job
from ultimate_jobs.slots import Candidate, Peek, SlotNeed
from ultimate_jobs.types import Claim

Limited = Candidate | Claim | JobRecord
NO_LANES: Mapping[tuple[str, ...] | None, str] = MappingProxyType({})


class Limits:
    """What is limited among the names and queues of one worker.

    Attributes:
        names: the served names with limits of their own.
        unlimited: the other served names.
        queues: the served queues with a limit; in these every job is limited.
    """

    def __init__(self, names: Iterable[str], queues: tuple[str, ...] | None) -> None:
        served = [(name, find_job(name)) for name in names]
        self.names = tuple(name for name, job in served if job.limits)
        self.unlimited = tuple(name for name, job in served if not job.limits)
        self.lane_names = frozenset(name for name, job in served if job.limits.serial_for)
        self._serves = queues
        limited = (name for name, said in conf.settings().queues.items() if said.concurrency)
        self.queues = tuple(name for name in limited if queues is None or name in queues)
        self._by_name = {name: job.limits.fixed_scopes(job.name) for name, job in served}
        scopes = (_queue_scopes(queue) for queue in self.queues)
        self._by_queue = dict(zip(self.queues, scopes, strict=True))

    def __bool__(self) -> bool:
        return bool(self.names or self.queues)

    @property
    def fixed_names(self) -> tuple[str, ...]:
        """The names of the slots that do not depend on the job's tenant or inputs."""
        fixed = [*self._by_name.values(), *self._by_queue.values()]
        return tuple({scope.name for scopes in fixed for scope in scopes})

    def full_names(self, used: Mapping[str, int]) -> frozenset[str]:
        """Return the job names of which nothing can start now, whatever its tenant and inputs."""
        return frozenset(name for name, scopes in self._by_name.items() if not _fits(scopes, used))

    def full_queues(self, used: Mapping[str, int]) -> frozenset[str]:
        """Return the limited queues of which nothing can start now."""
        return frozenset(
            queue for queue, scopes in self._by_queue.items() if not _fits(scopes, used)
        )

    def peeks(
        self,
        used: Mapping[str, int],
        *,
        limit: int,
        with_strays: bool,
        after_lanes: Mapping[tuple[str, ...] | None, str] = NO_LANES,
    ) -> list[Peek]:
        """Return where to look for jobs that may start: what is known to be full is left out.

        Args:
            after_lanes: by the queues of an earlier look, where the lanes go on.
        """
        full = self.full_names(used)
        open_queues = tuple(sorted(set(self.queues) - self.full_queues(used)))
        looks = [
            (self.names, self._serves, self.queues),
            ((*self.names, *self.unlimited), open_queues, ()),
        ]
        return [
            Peek(
                limit=limit,
                names=tuple(name for name in open_names if name not in self.lane_names),
                lane_names=tuple(name for name in open_names if name in self.lane_names),
                after_lane=after_lanes.get(queues, ""),
                with_strays=with_strays,
                queues=queues,
                shut_queues=shut,
            )
            for names, queues, shut in looks
            if (open_names := [name for name in names if name not in full]) and queues != ()
        ]


def need_of(job: Limited) -> SlotNeed:
    """Return every slot that a job must hold to begin; none where it is not limited."""
    definition = find_job(job.name)
    return SlotNeed(job.id, (*_queue_scopes(job.queue), *_own_scopes(definition, job)))


def plan_limited(
    needs: Iterable[SlotNeed], used: Mapping[str, int], *, most: int
) -> list[SlotNeed]:
    """Return the first ``most`` needs, in the order given, that fit together into what is free.

    A job that does not fit is passed over and takes nothing from those behind it.
    """
    taken = Counter(used)
    chosen: list[SlotNeed] = []
    for need in needs:
        if len(chosen) >= most:
            break
        if _fits(need.scopes, taken):
            taken.update(scope.name for scope in need.scopes)
            chosen.append(need)
    return chosen


def scope_names(needs: Iterable[SlotNeed]) -> list[str]:
    """Return the names of all slots that are asked for, each once."""
    return list({scope.name for need in needs for scope in need.scopes})


def in_turn(
    candidates: Sequence[Candidate], turns: Mapping[tuple[int, str], int]
) -> list[Candidate]:
    """Order by priority; within one, tenants alternate, and each has its own jobs by due time.

    Args:
        turns: when each (priority, tenant) was last served; who was not served comes first.
    """
    nth: Counter[tuple[int, str]] = Counter()
    keyed: list[tuple[tuple[Any, ...], Candidate]] = []
    for one in sorted(candidates, key=lambda one: (one.due_at, one.id)):
        party = (one.priority, one.tenant or "")
        keyed.append(((-one.priority, nth[party], turns.get(party, 0), one.due_at, one.id), one))
        nth[party] += 1
    return [one for _, one in sorted(keyed, key=lambda pair: pair[0])]


def _queue_scopes(queue: str) -> tuple[Scope, ...]:
    concurrency = conf.settings().queue(queue).concurrency
    return () if concurrency is None else (queue_scope(queue, concurrency),)


def _own_scopes(definition: JobDefinition, job: Limited) -> tuple[Scope, ...]:
    limits = definition.limits
    if not limits:
        return ()
    lane = None if isinstance(job, Claim) else job.serial_key
    inputs = None
    if limits.reads_inputs or (limits.serial_for is not None and lane is None):
        inputs = _inputs(definition, job)
    return limits.scopes(definition.name, tenant=job.tenant, lane=lane, inputs=inputs)


def _inputs(definition: JobDefinition, job: Limited) -> dict[str, Any] | None:
    try:
        return definition.schema.decode(job.payload)
    except UltimateJobsError:
        # An older build wrote it. Its attempt says so; here it only must not go unlimited.
        return None


def _fits(scopes: Iterable[Scope], used: Mapping[str, int]) -> bool:
    return all(used.get(scope.name, 0) < scope.most for scope in scopes)
