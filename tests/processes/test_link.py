"""The socket between a worker and its supervisor: reports, two words, and an end."""

from __future__ import annotations

import os
import queue
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.processes import eventually
from ultimate_jobs.processes.child import ChildProcess
from ultimate_jobs.processes.health import Health
from ultimate_jobs.processes.link import HURRY, STOP, SupervisorLink

PATIENCE = 20


class Worker:
    """The worker's end over a health that a test sets, and what it was asked."""

    def __init__(self, file: int, *, interval: float = 0.01) -> None:
        self.health = Health(live=True, ready=True)
        self.asked: queue.Queue[str] = queue.Queue()
        self.link = SupervisorLink(
            file,
            lambda: self.health,
            on_stop=lambda reason: self.asked.put(f"stop: {reason}"),
            on_hurry=lambda reason: self.asked.put(f"hurry: {reason}"),
            interval=interval,
        )


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Worker]]:
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE)
    worker = Worker(theirs.detach())
    yield ours, worker
    ours.close()


def report(end: socket.socket) -> Health:
    data = b""
    while not data.endswith(b"\n"):
        data += end.recv(65536)
    return Health.from_json(data.strip().rpartition(b"\n")[2])


def test_worker_reports_at_once_and_again(ends: tuple[socket.socket, Worker]) -> None:
    """The supervisor need not ask."""
    ours, worker = ends
    worker.link.start()
    first = report(ours)
    worker.health = Health(live=True, ready=False, why=("it stops",))

    again = eventually(lambda: (one := report(ours)).why and one, what="a later report")

    assert (first.ready, again.ready) == (True, False)


@pytest.mark.parametrize(
    ("word", "asked"),
    [(STOP, "stop: the supervisor stops"), (HURRY, "hurry: the supervisor hurries")],
)
def test_word_is_obeyed(ends: tuple[socket.socket, Worker], word: bytes, asked: str) -> None:
    """Also where it came before the worker began to listen."""
    ours, worker = ends
    ours.send(word)
    worker.link.start()

    assert worker.asked.get(timeout=PATIENCE) == asked


def test_end_of_the_supervisor_stops_the_worker(ends: tuple[socket.socket, Worker]) -> None:
    """However it ended: its end of the socket closes with it."""
    ours, worker = ends
    worker.link.start()
    ours.close()

    assert worker.asked.get(timeout=PATIENCE) == "stop: the supervisor is gone"


def test_supervisor_that_does_not_read_blocks_no_report(
    ends: tuple[socket.socket, Worker],
) -> None:
    """Reports are left out while it stands still, none is torn, and the last one comes through."""
    ours, worker = ends
    worker.health = Health(live=True, ready=True, why=("x" * 5000,))
    for _ in range(500):
        worker.link.report()
    ours.setblocking(False)
    read = b""
    while True:
        try:
            read += ours.recv(1_000_000)
        except BlockingIOError:
            break
    ours.settimeout(PATIENCE)
    worker.health = Health(live=True, ready=False)
    worker.link.report_last()
    while b'"ready": false' not in read:
        read += ours.recv(1_000_000)

    reports = [Health.from_json(line) for line in read.splitlines()]
    assert reports[-1].ready is False
    assert 1 < len(reports) < 500


def test_number_that_is_no_socket_is_an_os_error() -> None:
    """The command turns it into a refusal."""
    with pytest.raises(OSError):
        Worker(9999)


PROGRAM = """
import os, socket, sys
end = socket.socket(fileno=int(sys.argv[1]))
end.send(b'not json\\n{"live": true, "ready": true, "pid": %d}\\n{"li' % os.getpid())
word = end.recv(10)
sys.exit(3 if word == b"s" else 4)
"""


@pytest.fixture
def start() -> Iterator[Callable[[str], ChildProcess]]:
    children: list[ChildProcess] = []

    def begin(program: str) -> ChildProcess:
        children.append(ChildProcess(lambda file: [sys.executable, "-c", program, str(file)]))
        return children[-1]

    yield begin
    for child in children:
        if child.end_code() is None:
            child.kill()
            eventually(lambda child=child: child.end_code() is not None)
        child.close()


def test_child_is_heard_told_and_its_end_is_seen(start: Callable[[str], ChildProcess]) -> None:
    """What is torn or no report is passed by."""
    child = start(PROGRAM)

    health: Any = eventually(child.listen, what="a report")
    running = child.end_code()
    child.tell(STOP)

    assert health.pid == child.pid
    assert running is None
    assert eventually(child.end_code, what="its end") == 3


def test_child_is_a_process_group_of_its_own(start: Callable[[str], ChildProcess]) -> None:
    """Ctrl-C in a terminal must not reach it beside its supervisor: two signals end it at once."""
    child = start(PROGRAM)

    assert os.getpgid(child.pid) == child.pid != os.getpgrp()


def test_child_that_is_killed_shows_the_signal(start: Callable[[str], ChildProcess]) -> None:
    """The supervisor names it, and a word that comes too late harms nobody."""
    child = start(PROGRAM)

    child.kill()

    assert eventually(child.end_code, what="its end") == -signal.SIGKILL
    child.tell(STOP)


def test_child_has_no_other_childs_socket(start: Callable[[str], ChildProcess]) -> None:
    """Or the end of the supervisor would go unnoticed while a sibling lives."""
    counting = """
import os, socket, stat, sys
end = socket.socket(fileno=int(sys.argv[1]))
sockets = []
for number in range(3, 256):
    try:
        if stat.S_ISSOCK(os.fstat(number).st_mode):
            sockets.append(number)
    except OSError:
        pass
end.send(b'{"live": true, "ready": true, "running": %d}\\n' % len(sockets))
end.recv(10)
"""
    first, second = start(counting), start(counting)

    counts = [eventually(child.listen, what="a report").running for child in (first, second)]

    assert counts == [1, 1]
