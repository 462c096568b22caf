"""A worker stops once, for one reason, at the pace it is told."""

from __future__ import annotations

import os
import signal
import threading

from ultimate_jobs.processes.stopping import Stop
from ultimate_jobs.processes.wakes import Wake


def test_request_grants_the_grace_once() -> None:
    """A second reason neither replaces the first nor prolongs the grace."""
    wake = Wake()
    stop = Stop(wake, grace=30)

    before = stop.requested
    stop.request("SIGTERM")
    stop.request("nothing is due")

    assert not before
    assert stop.reason == "SIGTERM"
    assert 29 < stop.remaining() <= 30
    assert wake.pause(0)


def test_hurry_ends_the_grace() -> None:
    """Whatever was left of it."""
    stop = Stop(Wake(), grace=30)
    stop.request("SIGTERM")

    stop.hurry("SIGINT")

    assert stop.remaining() <= 0
    assert stop.reason == "SIGTERM"
    assert not stop.failed


def test_fail_stops_at_once_and_is_remembered() -> None:
    """A worker that lost one of its parts cannot end in order."""
    stop = Stop(Wake(), grace=30)

    stop.fail()

    assert stop.failed
    assert stop.requested
    assert stop.remaining() <= 0


def test_signals_ask_first_and_hurry_then() -> None:
    """The handlers of before are back afterwards, and a waiting main thread is woken."""
    wake = Wake()
    stop = Stop(wake, grace=30)
    before = signal.getsignal(signal.SIGTERM)

    with stop.on_signals():
        threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGTERM]).start()
        woken = wake.pause(10)
        asked = stop.remaining() > 0
        os.kill(os.getpid(), signal.SIGINT)
        wake.pause(10)

    assert woken
    assert asked
    assert stop.remaining() <= 0
    assert signal.getsignal(signal.SIGTERM) is before


def test_second_signal_hurries_no_child_of_a_supervisor() -> None:
    """Its supervisor and a service manager may both have sent the first."""
    stop = Stop(Wake(), grace=30, second_signal_hurries=False)

    with stop.on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)

    assert stop.reason == "SIGTERM"
    assert stop.remaining() > 29


def test_closed_terminal_asks_to_stop() -> None:
    """What runs in it is given back, rather than kept until the lease ends."""
    stop = Stop(Wake(), grace=30)

    with stop.on_signals():
        os.kill(os.getpid(), signal.SIGHUP)

    assert stop.reason == "SIGHUP"


def test_closed_terminal_is_ignored_where_it_is_to_be() -> None:
    """Under nohup the process goes on."""
    stop = Stop(Wake(), grace=30)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop.on_signals():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)

    assert not stop.requested


def test_first_signal_after_another_reason_hurries_nobody() -> None:
    """A supervisor's word and a service manager's signal are one stop, told twice."""
    stop = Stop(Wake(), grace=30)
    stop.request("the supervisor stops")

    with stop.on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        first = stop.remaining()
        os.kill(os.getpid(), signal.SIGTERM)
        second = stop.remaining()

    assert first > 0 >= second


def test_on_signals_outside_the_main_thread_leaves_them_alone() -> None:
    """Only the main thread may handle signals; elsewhere stop() is the way."""
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def run() -> None:
        with Stop(Wake(), grace=1).on_signals():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

    assert seen == [before]
