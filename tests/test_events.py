"""Events: every name is declared, and one bad subscriber stops no other."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ultimate_jobs import events


@pytest.fixture(autouse=True)
def own_subscribers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else listens while a test does."""
    monkeypatch.setattr(events, "_subscribers", [])


def test_emit_tells_every_subscriber_in_order() -> None:
    """Each subscriber gets the name and the facts."""
    heard: list[tuple[str, str, dict[str, Any]]] = []
    events.subscribe(lambda name, facts: heard.append(("first", name, facts)))
    events.subscribe(lambda name, facts: heard.append(("second", name, facts)))

    events.emit("jobs.worker.started", worker="w1")

    assert heard == [
        ("first", "jobs.worker.started", {"worker": "w1"}),
        ("second", "jobs.worker.started", {"worker": "w1"}),
    ]


def test_emit_without_subscribers_does_nothing() -> None:
    """An event that nobody listens to is no error."""
    events.emit("jobs.worker.started")


def test_emit_of_an_undeclared_name_is_refused() -> None:
    """A name that is not in the table is a mistake in this package, and is not swallowed."""
    with pytest.raises(KeyError):
        events.emit("jobs.worker.strated")


def test_emit_with_a_fact_called_name_keeps_both() -> None:
    """A job's name is a fact like any other."""
    heard: list[tuple[str, dict[str, Any]]] = []
    events.subscribe(lambda name, facts: heard.append((name, facts)))

    events.emit("jobs.attempt.dead", name="billing.send")

    assert heard == [("jobs.attempt.dead", {"name": "billing.send"})]


def test_emit_past_a_subscriber_that_raises_tells_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A broken metrics exporter must not keep a job from being recorded."""
    heard: list[str] = []

    def broken(name: str, facts: dict[str, Any]) -> None:
        raise RuntimeError("no exporter")

    events.subscribe(broken)
    events.subscribe(lambda name, facts: heard.append(name))

    with caplog.at_level(logging.ERROR, logger="ultimate_jobs"):
        events.emit("jobs.claim.lost")

    assert heard == ["jobs.claim.lost"]
    assert "an event subscriber failed" in caplog.text


@pytest.mark.parametrize("name", sorted(events.EVENTS))
def test_event_is_declared_with_a_level_and_one_sentence(name: str) -> None:
    """The table is what the reference page is built from."""
    level, told = events.EVENTS[name]

    assert name.startswith("jobs.")
    assert level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
    assert told
    assert "\n" not in told
