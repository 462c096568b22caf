"""manage.py jobs: looks at jobs and queues and acts on them; it only parses and prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from django.core.management.base import CommandParser

from ultimate_jobs import conf
from ultimate_jobs.declare import describe
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.management import shapes, texts
from ultimate_jobs.management.output import (
    REFUSED,
    AnsweringCommand,
    add_verb,
    chosen_driver,
    operator_name,
)
from ultimate_jobs.records import JobFilter, QueueState
from ultimate_jobs.registry import find_job
from ultimate_jobs.services import operators, queues, retention
from ultimate_jobs.services.operators import Outcome
from ultimate_jobs.states import JobState
from ultimate_jobs.types import ANY_TENANT, TenantScope

MOST_LISTED = 1000


class Command(AnsweringCommand):
    """The operators' view of jobs, in every tenant."""

    help = "Lists, shows, cancels, retries and counts jobs, pauses queues, removes old jobs."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        _add_ls(add_verb(verbs, "ls", self._ls, help="list jobs, newest first"))
        show = add_verb(verbs, "show", self._show, help="show one job and why it is not running")
        show.add_argument("id", metavar="ID")
        cancel = add_verb(verbs, "cancel", self._cancel, help="cancel jobs")
        cancel.add_argument("ids", nargs="+", metavar="ID")
        retry = add_verb(verbs, "retry", self._retry, help="bring dead or cancelled jobs back")
        retry.add_argument("ids", nargs="+", metavar="ID")
        retry.add_argument("--fresh", action="store_true", help="as a new run; completed jobs too")
        add_verb(verbs, "stats", self._stats, help="count jobs by queue, and list live workers")
        pause = add_verb(verbs, "pause", self._pause, help="keep a queue from being claimed")
        resume = add_verb(verbs, "resume", self._resume, help="let a paused queue go on")
        for parser in (pause, resume):
            parser.add_argument("queue", metavar="QUEUE")
            parser.add_argument(
                "--by", metavar="NAME", help="who asks; by default who is logged in"
            )
        prune = add_verb(
            verbs, "prune", self._prune, help="remove jobs that RETENTION keeps no more"
        )
        prune.add_argument("--dry-run", action="store_true", help="only count them")
        named = add_verb(verbs, "describe", self._describe, help="describe the declared jobs")
        named.add_argument("name", nargs="?", metavar="NAME")

    def handle(self, *args: Any, act: Callable[..., None], **options: Any) -> None:
        act(**{"json": False, "database": None, **options})

    def _ls(self, *, json: bool, database: str | None, **options: Any) -> None:
        criteria = JobFilter(
            tenant=_tenant(options["tenant"], tenantless=options["tenantless"]),
            states=tuple(options["states"] or ()),
            queue=options["queue"],
            name=options["name"],
            key=options["key"],
            before=operators.job_uuid(options["before"]) if options["before"] else None,
        )
        found = operators.find(_driver(database), criteria, limit=options["limit"])
        self._answer(found, shapes.page, texts.page, json=json)

    def _show(self, *, id: str, json: bool, database: str | None, **_: Any) -> None:  # noqa: A002
        found = operators.trace(_driver(database), id)
        self._answer(found, shapes.trace, texts.trace, json=json)

    def _cancel(self, *, ids: list[str], json: bool, database: str | None, **_: Any) -> None:
        driver = _driver(database)
        self._report(operators.cancel(driver, ids, by=operator_name()), json=json)

    def _retry(
        self, *, ids: list[str], fresh: bool, json: bool, database: str | None, **_: Any
    ) -> None:
        driver = _driver(database)
        self._report(operators.retry(driver, ids, fresh=fresh, by=operator_name()), json=json)

    def _stats(self, *, json: bool, database: str | None, **_: Any) -> None:
        found = operators.overview(_driver(database))
        self._answer(found, shapes.overview, texts.overview, json=json)

    def _pause(
        self, *, queue: str, by: str | None, json: bool, database: str | None, **_: Any
    ) -> None:
        self._turn(queues.pause, queue, by, json=json, database=database)

    def _resume(
        self, *, queue: str, by: str | None, json: bool, database: str | None, **_: Any
    ) -> None:
        self._turn(queues.resume, queue, by, json=json, database=database)

    def _turn(
        self,
        act: Callable[..., QueueState],
        queue: str,
        by: str | None,
        *,
        json: bool,
        database: str | None,
    ) -> None:
        driver = _driver(database)
        with operators.reachable(driver):
            state = act(driver, queue, by=by or operator_name())
            known = queues.is_known(driver, queue)
        note = None if known else f'note: no declared job names "{queue}", and no job waits in it'
        self._answer(
            state,
            partial(shapes.queue_state, note=note),
            partial(texts.queue_state, note=note),
            json=json,
        )

    def _prune(self, *, dry_run: bool, json: bool, database: str | None, **_: Any) -> None:
        driver = _driver(database)
        with operators.reachable(driver):
            removed = retention.prune(driver, dry_run=dry_run)
        keep = conf.settings().retention
        self._answer(
            removed,
            partial(shapes.pruned, keep=keep, dry_run=dry_run),
            partial(texts.pruned, keep=keep, dry_run=dry_run),
            json=json,
        )

    def _describe(self, *, name: str | None, json: bool, **_: Any) -> None:
        jobs = describe() if name is None else [find_job(name).describe()]
        self._answer(jobs, shapes.described, texts.described, json=json)

    def _answer(
        self,
        found: Any,
        as_data: Callable[[Any], object],
        as_text: Callable[[Any], str],
        *,
        json: bool,
    ) -> None:
        if json:
            self.answer_json(as_data(found))
        else:
            self.stdout.write(as_text(found))

    def _report(self, answers: list[Outcome], *, json: bool) -> None:
        if json:
            self.answer_json(shapes.outcomes(answers))
        for one in [] if json else answers:
            if one.refusal is None:
                self.stdout.write(texts.outcome(one))
            else:
                self.refuse(one.refusal, as_json=False)
        if any(one.refusal is not None for one in answers):
            sys.exit(REFUSED)


def _add_ls(ls: CommandParser) -> None:
    ls.add_argument(
        "--state",
        dest="states",
        action="append",
        choices=[state.value for state in JobState],
        help="may be given more than once",
    )
    ls.add_argument("--queue")
    ls.add_argument("--name")
    ls.add_argument("--key")
    whose = ls.add_mutually_exclusive_group()
    whose.add_argument("--tenant")
    whose.add_argument("--tenantless", action="store_true", help="only jobs without a tenant")
    ls.add_argument("--limit", type=_limit, default=50, metavar="N")
    ls.add_argument("--before", metavar="ID", help="only jobs older than this one")


def _driver(alias: str | None) -> Driver:
    return chosen_driver(alias, command="jobs ls")


def _limit(text: str) -> int:
    # A ValueError would be told under the name of this function.
    if not (text.isdecimal() and 1 <= int(text) <= MOST_LISTED):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to {MOST_LISTED}")
    return int(text)


def _tenant(tenant: str | None, *, tenantless: bool) -> TenantScope:
    if tenantless:
        return None
    return ANY_TENANT if tenant is None else tenant
