"""Errors: they cross processes, print as JSON, and say their cause and fix wherever they land."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from ultimate_jobs.errors import (
    CODES,
    EnqueueContended,
    EnqueueSerialization,
    IdempotencyRequired,
    JobDuplicate,
    JobNotFound,
    JobsSchema,
    UltimateJobsError,
)


def test_error_says_code_cause_fix_and_docs() -> None:
    """What a terminal or a log shows is enough to act on."""
    error = JobNotFound(job_id="42")

    assert str(error).splitlines() == [
        "X_JOB_NOT_FOUND: no job has the id 42 among the tenants that were asked",
        "  fix: manage.py jobs ls",
        "  docs: docs/reference/errors/x_job_not_found.md",
    ]


def test_error_as_dict_is_what_json_prints() -> None:
    """A script reads the same four facts."""
    error = JobNotFound(job_id="42")

    facts = json.loads(json.dumps(error.as_dict()))

    assert facts == {
        "code": "X_JOB_NOT_FOUND",
        "cause": error.cause,
        "fix": error.fix,
        "docs": error.docs,
    }


@pytest.mark.parametrize("crossing", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy])
def test_error_crosses_a_process_with_all_it_says(crossing: object) -> None:
    """Sentences and extra facts alike arrive on the other side."""
    error = JobDuplicate(job="billing.send", job_id="42", state="ready")

    arrived = crossing(error)  # type: ignore[operator]

    assert type(arrived) is JobDuplicate
    assert (str(arrived), arrived.job_id) == (str(error), "42")


def test_error_of_a_subclass_is_caught_by_its_base() -> None:
    """An app may catch everything of this package at once."""
    assert all(issubclass(kind, UltimateJobsError) for kind in CODES.values())


def test_code_declared_twice_is_refused() -> None:
    """A code leads to one page, so two classes cannot share it."""
    with pytest.raises(RuntimeError, match="X_JOB_NOT_FOUND"):
        type("Second", (UltimateJobsError,), {"code": "X_JOB_NOT_FOUND"})

    assert CODES["X_JOB_NOT_FOUND"] is JobNotFound


def test_subclass_without_a_code_of_its_own_keeps_its_parents() -> None:
    """An app that refines an error does not need a page for it."""

    class Finer(JobNotFound):
        pass

    assert Finer(job_id=1).as_dict()["code"] == "X_JOB_NOT_FOUND"
    assert CODES["X_JOB_NOT_FOUND"] is JobNotFound


@pytest.mark.parametrize("kind", [EnqueueSerialization, EnqueueContended])
def test_retriable_errors_say_so(kind: type[UltimateJobsError]) -> None:
    """A caller can tell by one attribute that running again helps."""
    assert kind.retriable is True  # type: ignore[attr-defined]


def test_missing_key_suggests_a_key_over_the_first_input() -> None:
    """The fix is the line to write."""
    error = IdempotencyRequired(job="billing.send_invoice", parameters=["invoice_id"])

    assert error.fix == 'declare it as @job(key="send_invoice:{invoice_id}")'


@pytest.mark.parametrize(
    ("alias", "fix"),
    [
        ("default", "manage.py migrate ultimate_jobs"),
        ("queue", "manage.py migrate ultimate_jobs --database queue"),
    ],
)
def test_schema_error_names_the_alias_in_its_fix(alias: str, fix: str) -> None:
    """The command repairs the database that was meant."""
    assert JobsSchema(detail="x", alias=alias).fix == fix
