"""What an enqueue leaves behind in the process that called it."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest
from django.db import transaction

from tests.app.jobs import note
from ultimate_jobs.ids import new_id

COUNT = 1500
# An id alone takes more than this, if it is kept.
BYTES_A_JOB = 40


def label() -> str:
    """Return a text too long for pydantic's cache of short ones, which grows to a bound."""
    return f"{new_id()}{new_id()}"


def one_by_one(count: int) -> None:
    for _ in range(count):
        note.enqueue(label=label())


def in_bulk(count: int) -> None:
    note.enqueue_many({"label": label()} for _ in range(count))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("enqueue", [one_by_one, in_bulk])
def test_enqueue_of_many_jobs_in_one_transaction_keeps_nothing_of_them(
    enqueue: Callable[[int], None],
) -> None:
    """Neither callbacks nor answers pile up until the commit."""
    with transaction.atomic():
        enqueue(200)
        gc.collect()
        tracemalloc.start()
        try:
            enqueue(200)
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            enqueue(COUNT)
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert (after - before) / COUNT < BYTES_A_JOB
