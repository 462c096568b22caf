"""Every SQL statement of the package, by name; text only, read by drivers.postgres and triggers."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_HEAD = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def statement(name: str) -> str:
    """Return one statement, for example ``statement("claims.claim")``.

    Raises:
        KeyError: the file holds no statement of this name.
    """
    noun, _, verb = name.partition(".")
    return statements(noun)[verb]


@cache
def statements(noun: str) -> dict[str, str]:
    """Return the statements of ``sql/<noun>.sql`` by name, their comments stripped."""
    text = files(__package__).joinpath(f"{noun}.sql").read_text(encoding="utf-8")
    parts = _HEAD.split(text)[1:]
    found: dict[str, str] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if name in found:
            raise KeyError(f"{noun}.sql names {name} twice")
        lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
        found[name] = "\n".join(lines).strip().removesuffix(";")
    return found
