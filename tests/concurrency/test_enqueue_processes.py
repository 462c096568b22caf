"""Eight processes enqueue the same keys while workers finish them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from tests.concurrency.sessions import fetch

PROCESSES = 8
DEADLINE_SECONDS = 240.0
LIVE = "state in ('ready', 'delayed', 'running', 'suspended')"
TWICE_LIVE = f"select 1 from x_jobs where {LIVE} group by idempotency_key having count(*) > 1"


@pytest.mark.parametrize("keys", [60, pytest.param(1000, marks=pytest.mark.stress)])
def test_enqueue_of_the_same_keys_by_eight_processes_loses_and_doubles_nothing(
    database_url: str, tmp_path: Path, keys: int
) -> None:
    """Never an error nor two live rows of one key, and an effect sees each accepted call."""
    environment = {**os.environ, "DATABASE_URL": database_url}
    environment["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    workers = [start(environment, "manage.py", "runjobs", "--threads", "4") for _ in range(2)]
    enqueuers = [
        start(
            environment,
            *("-m", "tests.concurrency.enqueuer", "--who", f"p{number}"),
            *("--keys", str(keys), "--on-conflict", "rerun" if number % 2 else "existing"),
            *("--out", str(tmp_path / f"p{number}.json")),
        )
        for number in range(PROCESSES)
    ]

    try:
        doubles_seen = watch(enqueuers)
        drain()
    finally:
        stop(workers + enqueuers)

    assert [process.returncode for process in enqueuers] == [0] * PROCESSES
    calls = [call for path in tmp_path.glob("*.json") for call in json.loads(path.read_text())]
    assert len(calls) == PROCESSES * keys
    assert doubles_seen == 0
    assert_every_answer_exists(calls)
    assert_one_effect_per_run()
    assert_each_promise_was_seen(calls)


def start(environment: dict[str, str], *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
    )


def stop(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()


def watch(enqueuers: list[subprocess.Popen[bytes]]) -> int:
    """Sample for two live rows of one key until the enqueuers end."""
    doubles = 0
    deadline = time.monotonic() + DEADLINE_SECONDS
    while any(process.poll() is None for process in enqueuers):
        assert time.monotonic() < deadline, "the enqueuers do not end"
        doubles += len(fetch(TWICE_LIVE))
        time.sleep(0.05)
    return doubles


def drain() -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while fetch(f"select 1 from x_jobs where {LIVE} limit 1"):
        assert time.monotonic() < deadline, "the workers do not finish what was enqueued"
        time.sleep(0.1)


def assert_every_answer_exists(calls: list[dict[str, object]]) -> None:
    ids = {str(row[0]) for row in fetch("select id from x_jobs")}
    assert {str(call["id"]) for call in calls} <= ids


def assert_one_effect_per_run() -> None:
    """Recounted from the effects table, not from what the jobs say of themselves."""
    odd = fetch(
        "select j.id, j.state, count(e.id) from x_jobs j "
        "left join testapp_effect e on e.job_id = j.id "
        "group by j.id having count(e.id) <> 1 or j.state <> 'completed'"
    )
    assert odd == []


def assert_each_promise_was_seen(calls: list[dict[str, object]]) -> None:
    latest: dict[tuple[str, str], int] = defaultdict(int)
    for key, seen in fetch("select label, seen from testapp_effect"):
        for who, version in json.loads(seen).items():
            latest[key, who] = max(latest[key, who], version)
    unseen = [
        call
        for call in calls
        if call["promised"] and latest[str(call["key"]), str(call["who"])] < call["version"]
    ]
    assert unseen == []
    assert any(call["deduped"] for call in calls)
