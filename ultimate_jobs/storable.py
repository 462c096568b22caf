"""What JSON text and PostgreSQL can carry, and the place of what they cannot."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Model
from django.db.models.query import QuerySet
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, from_json, to_json

# What the JSON parser reads back: a value and this many levels inside it.
MAX_DEPTH = 199
# Of a whole number: about the 4300 digits that Python turns back from text.
MAX_BITS = 14_283
# In characters, of a path inside an error.
MAX_PATH = 120

# A cheap witness in the dumped text; only a hit pays for the walk that finds the path.
_SUSPECT = re.compile(rb"\\u0000|NaN|Infinity")

_HAS_EXPONENT = re.compile(rb"\de\+?\d")
_TEXT_OR_EXPONENT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?e\+?\d+')


@dataclass(frozen=True, slots=True)
class Refusal:
    """One value that JSON cannot carry: where it stands, what is wrong, what to do."""

    path: str
    problem: str
    remedy: str


def keep_floats(encoded: bytes) -> bytes:
    """Spell large floats without exponent: jsonb would turn ``1e+16`` into a whole number."""
    if not _HAS_EXPONENT.search(encoded):
        return encoded
    return _TEXT_OR_EXPONENT.sub(_spelled, encoded)


def _spelled(token: re.Match[bytes]) -> bytes:
    if token[0].startswith(b'"'):
        return token[0]
    digits = f"{Decimal(token[0].decode()):f}"
    return (digits if "." in digits else f"{digits}.0").encode()


def find_in_text(encoded: bytes, *, root: str = "") -> Refusal | None:
    """Return the first value of a JSON text that PostgreSQL refuses.

    Raises:
        ValueError: it is no text that can be read back.
    """
    return find_refusal(from_json(encoded), root=root) if _SUSPECT.search(encoded) else None


def find_refusal(value: object, *, root: str = "") -> Refusal | None:
    """Return the first value inside that JSON or PostgreSQL cannot carry, depth first."""
    return _walk(value, root, 0, frozenset())


def _walk(value: object, path: str, depth: int, above: frozenset[int]) -> Refusal | None:
    place = place_of(path)
    if isinstance(value, str):
        return _check_text(value, place)
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return Refusal(place, "is a whole number of too many digits", "pass it as text")
    if isinstance(value, float) and not math.isfinite(value):
        return Refusal(place, "is NaN or infinite", "pass None instead")
    if isinstance(value, Model):
        return Refusal(
            place, f"is a {type(value).__name__} instance", "pass its primary key instead"
        )
    if isinstance(value, QuerySet):
        return Refusal(place, "is a queryset", "pass a list of primary keys instead")
    if isinstance(value, bytes | bytearray | memoryview):
        return Refusal(place, "is binary", "pass base64 text, or store a file and pass its name")
    if (callable(value) and not isinstance(value, type)) or isinstance(value, Iterator):
        return Refusal(place, f"is a {type(value).__name__}", "pass plain JSON values")
    inside = _inside(value, path)
    if inside is None:
        return _check_leaf(value, place)
    if id(value) in above:
        return Refusal(place, "contains itself", "pass a value without cycles")
    if depth > MAX_DEPTH:
        return Refusal(place, f"is nested over {MAX_DEPTH} deep", "pass a flatter value")
    for key, where, item in inside:
        found = _check_text(key, f"a key of {place}") if isinstance(key, str) else None
        found = found or _walk(item, where, depth + 1, above | {id(value)})
        if found:
            return found
    return None


def _inside(value: object, path: str) -> Iterator[tuple[object, str, object]] | None:
    """Return each (key, path, item) of a container, or ``None`` where the value is none."""
    if isinstance(value, Mapping):
        return ((key, inner_path(path, key), item) for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return ((None, f"{path}[{index}]", item) for index, item in enumerate(value))
    named = _fields(value)
    if named is None:
        return None
    return ((None, inner_path(path, name), item) for name, item in named.items())


def _fields(value: object) -> dict[str, Any] | None:
    """Return the fields of a dataclass or pydantic instance, ``None`` for all else."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name, None) for one in fields(value)}
    return dict(value) if isinstance(value, BaseModel) else None


def _check_leaf(value: object, place: str) -> Refusal | None:
    try:
        to_json(value)
    except (PydanticSerializationError, ValueError):
        return Refusal(place, f"is a {type(value).__name__}", "pass plain JSON values")
    return None


def find_change(before: object, after: object, path: str = "") -> Refusal | None:
    """Return the first value that came back from JSON as something else.

    A tuple may come back as a list; nothing else may change, not even its type.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return _change_inside(before, after, path)
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        pairs = enumerate(zip(before, after, strict=True))
        changes = (find_change(old, new, f"{path}[{i}]") for i, (old, new) in pairs)
        return next((change for change in changes if change), None)
    named = _fields(after)
    if named is not None and type(before) is type(after):
        return _change_inside(_fields(before) or {}, named, path)
    if not isinstance(before, type(after)) or named is not None:
        return find_refusal(before, root=path) or Refusal(
            place_of(path),
            f"is a {type(before).__name__} and would come back as a {type(after).__name__}",
            "annotate it with its own type, or pass plain JSON values",
        )
    if _is_same(before, after):
        return None
    return Refusal(
        place_of(path),
        f"is a {type(before).__name__} that JSON does not give back as it was",
        "pass plain JSON values",
    )


def _change_inside(
    before: Mapping[Any, Any], after: Mapping[Any, Any], path: str
) -> Refusal | None:
    for key, item in before.items():
        if key not in after:
            return Refusal(
                place_of(path), f"has a {type(key).__name__} as a key", "make every key a str"
            )
        change = find_change(item, after[key], inner_path(path, key))
        if change:
            return change
    return None


def _is_same(before: object, after: object) -> bool:
    if isinstance(before, Iterator):
        return False  # writing it has used it up
    if before == after or type(before).__eq__ is object.__eq__:
        return True
    # In a repeated or skipped hour, equal instants of two time zones compare as unequal.
    return (
        isinstance(before, datetime)
        and isinstance(after, datetime)
        and before.replace(tzinfo=None) == after.replace(tzinfo=None)
        and before.utcoffset() == after.utcoffset()
    )


def _check_text(text: str, place: str) -> Refusal | None:
    if "\x00" in text:
        return Refusal(place, "contains a NUL character", 'remove it: value.replace("\\0", "")')
    try:
        text.encode()
    except UnicodeEncodeError:
        return Refusal(
            place,
            "contains half of a surrogate pair",
            'repair it: value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")',
        )
    return None


def place_of(path: str) -> str:
    """Return a path as a message shows it."""
    if not path:
        return "its root"
    return path if len(path) <= MAX_PATH else path[: MAX_PATH - 3] + "..."


def inner_path(path: str, key: object) -> str:
    """Return the path of what stands under a key."""
    return f"{path}.{shown(key)}" if path else shown(key)


def shown(key: object) -> str:
    """Return a key as printable ASCII on one line, cut to a readable length."""
    text = str(key).encode("unicode_escape").decode()
    return text if len(text) <= 60 else text[:57] + "..."
