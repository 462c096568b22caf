"""Ids: UUIDv7, unique across threads and forks, in the order in which they were made."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import RFC_4122, UUID

from ultimate_jobs.ids import FIRST_ID, LAST_ID, first_id_at, new_id

FORKING = """
import os
from ultimate_jobs.ids import new_id
new_id()
read, write = os.pipe()
for _ in range(8):
    if os.fork() == 0:
        os.write(write, "".join(f"{new_id().hex}\\n" for _ in range(50)).encode())
        os._exit(0)
for _ in range(8):
    os.wait()
os.close(write)
print(os.fdopen(read).read())
"""


def test_new_id_is_a_uuid_of_version_7() -> None:
    """The version decides how the primary key grows."""
    made = new_id()

    assert type(made) is UUID
    assert (made.version, made.variant) == (7, RFC_4122)


def test_new_id_begins_with_the_present_millisecond() -> None:
    """Ids sort by creation time, also among processes."""
    before = time.time_ns() // 1_000_000
    made = new_id()
    after = time.time_ns() // 1_000_000

    stamp = made.int >> 80

    assert before <= stamp <= after


def test_new_ids_of_one_thread_ascend() -> None:
    """A list that is enqueued at once keeps its order by id."""
    made = [new_id() for _ in range(20_000)]

    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_new_ids_of_many_threads_are_all_different() -> None:
    """Threads share no state that could hand out an id twice."""
    with ThreadPoolExecutor(8) as pool:
        made = [
            one
            for part in pool.map(lambda _: [new_id() for _ in range(2000)], range(8))
            for one in part
        ]

    assert len(set(made)) == 16_000


def test_new_ids_of_forked_children_are_all_different() -> None:
    """A server that forks after its first id must not give two children the same ids."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING], capture_output=True, text=True, check=True
    )

    made = run.stdout.split()

    assert len(made) == 400
    # Not the whole id: children rarely share a millisecond, and must not need that luck.
    assert len({one[-15:] for one in made}) == 400


def test_first_id_at_stands_between_earlier_and_later_ids() -> None:
    """So that a time is a bound on the primary key."""
    millisecond = timedelta(milliseconds=1)
    before = datetime.now(UTC) - millisecond
    made = new_id()
    after = datetime.now(UTC) + millisecond

    assert first_id_at(before) < made < first_id_at(after)


def test_first_id_at_a_time_before_all_times_is_the_first_of_all() -> None:
    """A period longer than the epoch removes nothing, and raises nothing."""
    assert first_id_at(datetime(1926, 1, 1, tzinfo=UTC)) == FIRST_ID
    assert FIRST_ID < new_id() < LAST_ID
