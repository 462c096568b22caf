"""The demo's flags are checked before anything changes."""

from __future__ import annotations

import socket

import pytest

from example_project.places.demo.options import HOST, Options, read_options
from ultimate_jobs.errors import ArgumentInvalid


def test_read_options_without_flags_takes_the_defaults():
    """No flag means the default demo."""
    assert read_options({}) == Options()


def test_read_options_takes_numbers():
    """Each flag is read as a number."""
    given = {"tenants": "2", "duplicates": "0", "poison": "7", "seed": "9", "limit": "50"}

    assert read_options(given) == Options(tenants=2, duplicates=0, poison=7, seed=9, limit=50)


@pytest.mark.parametrize("text", ["x", "", "-1", "1.5", "1_0", " 1", "٣", "9" * 30])
@pytest.mark.parametrize("flag", ["tenants", "duplicates", "poison", "seed", "limit"])
def test_read_options_refuses_what_is_no_number(flag, text):
    """The refusal names the flag and gives a line that works."""
    with pytest.raises(ArgumentInvalid) as refused:
        read_options({flag: text})

    assert refused.value.cause.startswith(f"--{flag} takes a whole number from ")
    assert refused.value.fix.startswith(f"manage.py demo --{flag} ")


@pytest.mark.parametrize("text", ["x", "80", "70000"])
def test_read_options_refuses_a_port_that_cannot_be(text):
    """A port is a number that an ordinary user may listen on."""
    with pytest.raises(ArgumentInvalid, match="--serve takes a port"):
        read_options({"serve": text})


def test_read_options_refuses_a_port_that_is_taken():
    """Another program's port is refused now, not after a minute of work."""
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]

        with pytest.raises(ArgumentInvalid, match="another program has it"):
            read_options({"serve": str(port)})
