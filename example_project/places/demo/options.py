"""The flags of the demo, checked before anything changes."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass

from ultimate_jobs.errors import ArgumentInvalid

HOST = "127.0.0.1"

# flag -> (default, least, most, what it is)
NUMBERS = {
    "tenants": (2, 1, 50, "tenants; each asks for every place"),
    "duplicates": (300, 0, 100_000, "enqueues of a key that is already waiting, in all"),
    "poison": (10, 0, 10_000, "jobs that cannot succeed, in all"),
    "seed": (1, 0, 2**63 - 1, "decides which jobs are duplicates, flaky and poison"),
    "limit": (0, 0, 100_000, "work on this many places only; 0 means all"),
}
PORT_RANGE = (1024, 65_535)
DEFAULT_PORT = "8000"


@dataclass(frozen=True, slots=True)
class Options:
    """What one run of the demo was asked to do; ``port`` is set where it should serve."""

    tenants: int = NUMBERS["tenants"][0]
    duplicates: int = NUMBERS["duplicates"][0]
    poison: int = NUMBERS["poison"][0]
    seed: int = NUMBERS["seed"][0]
    limit: int = NUMBERS["limit"][0]
    port: int | None = None


def read_options(given: Mapping[str, str | None]) -> Options:
    """Return the flags as numbers.

    Raises:
        ArgumentInvalid: one is no number, is out of its range, or names a port that is taken.
    """
    numbers = {name: _number(name, given.get(name)) for name in NUMBERS}
    port = given.get("serve")
    return Options(**numbers, port=None if port is None else _free_port(port))


def _number(name: str, text: str | None) -> int:
    default, least, most, _ = NUMBERS[name]
    if text is None:
        return default
    number = _whole(text)
    if number is None or not least <= number <= most:
        raise ArgumentInvalid(
            argument=f"--{name}",
            problem=f"takes a whole number from {least} to {most}, not {_shown(text)}",
            fix=f"manage.py demo --{name} {default}",
        )
    return number


def _free_port(text: str) -> int:
    port = _whole(text)
    least, most = PORT_RANGE
    if port is None or not least <= port <= most:
        raise ArgumentInvalid(
            argument="--serve",
            problem=f"takes a port from {least} to {most}, not {_shown(text)}",
            fix=f"manage.py demo --serve {DEFAULT_PORT}",
        )
    # Now, not after a minute of work.
    if not _can_bind(port):
        raise port_taken(port)
    return port


def port_taken(port: int) -> ArgumentInvalid:
    """Return the refusal of a port that another program has."""
    return ArgumentInvalid(
        argument="--serve",
        problem=f"cannot use port {port} of {HOST}: another program has it",
        fix=f"manage.py demo --serve {port + 1 if port < PORT_RANGE[1] else DEFAULT_PORT}",
    )


def _whole(text: str) -> int | None:
    # int() also takes " 1_0 ", which nobody means.
    return int(text) if text.isascii() and text.removeprefix("-").isdigit() else None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _can_bind(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
