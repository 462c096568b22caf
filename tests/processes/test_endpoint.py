"""Probes over HTTP: 200 or 503, and always why."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ultimate_jobs.processes.endpoint import Endpoint
from ultimate_jobs.processes.health import Health


class Patient:
    """Somebody whose health a test changes."""

    def __init__(self) -> None:
        self.health = Health(live=True, ready=True, pid=7)

    def look(self) -> Health:
        return self.health


@pytest.fixture
def patient() -> Patient:
    return Patient()


@pytest.fixture
def port(patient: Patient) -> Iterator[int]:
    endpoint = Endpoint("127.0.0.1", 0, patient.look)
    endpoint.start()
    yield endpoint.port
    endpoint.stop()


def ask(port: int, path: str, method: str = "GET") -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    is_json = answer.headers.get("Content-Type") == "application/json"
    return answer.status, json.loads(body) if is_json else body


@pytest.mark.parametrize(
    ("live", "ready", "livez", "readyz"),
    [(True, True, 200, 200), (True, False, 200, 503), (False, False, 503, 503)],
)
def test_probes_answer_by_status(
    port: int, patient: Patient, live: bool, ready: bool, livez: int, readyz: int
) -> None:
    """The two questions have an answer each."""
    patient.health = replace(patient.health, live=live, ready=ready)

    assert (ask(port, "/livez")[0], ask(port, "/readyz?verbose")[0]) == (livez, readyz)


def test_answer_says_why(port: int, patient: Patient) -> None:
    """Whoever looks finds the reason in the body."""
    patient.health = replace(patient.health, ready=False, why=("it stops",))

    _, body = ask(port, "/readyz")

    assert body["why"] == ["it stops"]
    assert body["pid"] == 7


@pytest.mark.parametrize("path", ["/", "/metrics", "/livez/", "/../livez"])
def test_other_paths_are_not_found(port: int, path: str) -> None:
    """There is nothing else to see."""
    assert ask(port, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_other_methods_are_refused(port: int, method: str) -> None:
    """Nothing can be changed here."""
    assert ask(port, "/livez", method)[0] == 501


def test_address_in_use_is_an_os_error(port: int, patient: Patient) -> None:
    """The command turns it into a refusal."""
    with pytest.raises(OSError, match="in use"):
        Endpoint("127.0.0.1", port, patient.look)
