"""A worker that dies is told in words and replaced, and not for ever."""

from __future__ import annotations

import io

import pytest

from example_project.places.demo import watch
from example_project.places.demo.console import Console
from example_project.places.demo.recount import States


class FakeWorker:
    """A worker that ends at once."""

    started = 0
    exit_codes: list[int | None] = []
    pid = 4711

    def __init__(self) -> None:
        self.exit_code = self.exit_codes[min(FakeWorker.started, len(self.exit_codes) - 1)]
        FakeWorker.started += 1

    def close(self) -> None:
        pass

    def last_words(self) -> list[str]:
        return ["out of memory"]


@pytest.fixture(autouse=True)
def fakes(monkeypatch):
    """No process, and no waiting."""
    monkeypatch.setattr(FakeWorker, "started", 0)
    monkeypatch.setattr(watch, "WorkerProcess", FakeWorker)
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0)


def stand(monkeypatch, *live: int) -> None:
    """Let the counts say how many jobs are live, look by look; the last one stays."""
    left = list(live)

    def count(_):
        now = left.pop(0) if len(left) > 1 else left[0]
        return States(accepted=9, completed=9 - now, dead=0, retried=0, live=now, seconds=1.0)

    monkeypatch.setattr(watch, "count_states", count)


def test_until_done_replaces_a_dead_worker(monkeypatch):
    """A death is told, with its last words where it had any, and another worker finishes."""
    monkeypatch.setattr(FakeWorker, "exit_codes", [-9, 3, None])
    stand(monkeypatch, 9, 6, 4, 0)
    stream = io.StringIO()

    states = watch.Watch(["a"], Console(stream)).until_done()

    assert states.live == 0
    told = stream.getvalue()
    assert "The worker (process 4711) was ended by SIGKILL; nothing is lost by that.\n" in told
    assert (
        "(process 4711) ended with exit code 3; nothing is lost by that.\n    it said: out" in told
    )


def test_until_done_gives_up_after_several_deaths(monkeypatch):
    """A worker that can never start is an error with the reason, not an endless loop."""
    monkeypatch.setattr(FakeWorker, "exit_codes", [1])
    stand(monkeypatch, 9)

    with pytest.raises(watch.WorkersFailed) as failed:
        watch.Watch(["a"], Console(io.StringIO())).until_done()

    assert failed.value.code == "X_WORKER_GONE"
    assert "out of memory" in failed.value.cause
    assert FakeWorker.started == watch.MAX_DEATHS + 1


def test_until_done_gives_up_when_nothing_moves(monkeypatch):
    """Jobs that never end are told, not waited for."""
    monkeypatch.setattr(FakeWorker, "exit_codes", [None])
    monkeypatch.setattr(watch, "STALLED_SECONDS", -1)
    stand(monkeypatch, 9)

    with pytest.raises(watch.WorkersFailed, match="no job ended"):
        watch.Watch(["a"], Console(io.StringIO())).until_done()
