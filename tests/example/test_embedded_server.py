"""The embedded server: shared, healed after a crash, and never on a folder of someone else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from example_project import embedded_server
from example_project.databases import PROJECT

HOLD = """
import sys, pathlib
from example_project import embedded_server
print(embedded_server.start(pathlib.Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: a socket's may have a hundred characters."""
    made = Path(tempfile.mkdtemp(prefix="uj-"))
    yield made / "pg"
    shutil.rmtree(made, ignore_errors=True)


class Holder:
    """A process that holds the server of a folder."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", HOLD, str(folder)],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.communicate(timeout=60)


def answers(url: str) -> bool:
    try:
        with psycopg.connect(url) as connection:
            return connection.execute("select 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def test_start_after_a_crash_recovers(folder: Path):
    """Data of a server that was killed is there again, though its pid is another program's now."""
    first = Holder(folder)
    with psycopg.connect(first.url) as connection:
        connection.execute("create table kept (answer int)")
        connection.execute("insert into kept values (42)")
    pid_file = folder / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    crash(int(lines[0]))
    first.process.kill()
    first.process.communicate()
    lines[0] = str(os.getpid())
    pid_file.write_text("\n".join(lines) + "\n")

    second = Holder(folder)

    with psycopg.connect(second.url) as connection:
        assert connection.execute("select answer from kept").fetchone() == (42,)
    second.end()
    assert not answers(second.url), "a killed holder keeps the server"


def test_start_is_shared_until_the_last_ends(folder: Path):
    """Two processes use one server; it stays when one ends, and stops with the other."""
    first, second = Holder(folder), Holder(folder)

    assert first.url == second.url
    first.end()
    assert answers(second.url)
    second.end()
    assert not answers(second.url)


def test_start_refuses_a_planted_link(folder: Path, monkeypatch):
    """In a shared /tmp a link to another folder is not followed."""
    monkeypatch.delenv(embedded_server.SETTING, raising=False)
    target = folder.parent / "elsewhere"
    target.mkdir()
    folder.symlink_to(target)

    with pytest.raises(embedded_server.EmbeddedServerFailed) as refused:
        embedded_server.start(folder)

    assert refused.value.code == "X_ARGUMENT_INVALID"
    assert list(target.iterdir()) == []


def test_start_says_why_it_cannot(folder: Path):
    """A folder that holds something else is told with the server's own reason, and kept."""
    folder.mkdir(mode=0o700)
    (folder / "PG_VERSION").write_text("9.1\n")

    with pytest.raises(embedded_server.EmbeddedServerFailed) as refused:
        embedded_server.start(folder)

    assert str(folder) in refused.value.cause
    assert (folder / "PG_VERSION").exists()


def test_dead_handles_are_forgotten(folder: Path):
    """A process that was killed does not keep the server for good."""
    folder.mkdir()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    handles = folder / ".handle_pids.json"
    handles.write_text(json.dumps([gone.pid, os.getpid()]))

    embedded_server._forget_dead_handles(folder)

    assert json.loads(handles.read_text()) == [os.getpid()]


def crash(postmaster: int) -> None:
    """Kill a server and its children, as a power cut does."""
    server = psutil.Process(postmaster)
    everyone = [server, *server.children(recursive=True)]
    for process in everyone:
        process.kill()
    deadline = time.monotonic() + 10
    while psutil.pid_exists(postmaster) and time.monotonic() < deadline:
        if psutil.Process(postmaster).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.01)
