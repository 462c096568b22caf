"""A function's annotations as its input schema, and values as JSON text that means the same."""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, NotRequired, cast, get_args, get_type_hints

from django.db.models import Model
from django.db.models.query import QuerySet
from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError, from_json, to_json
from pydantic_core.core_schema import ErrorType
from typing_extensions import TypedDict

from ultimate_jobs.errors import (
    JobInputInvalid,
    JobPayloadInvalid,
    JobPayloadTooLarge,
    JobSignatureInvalid,
    ResultInvalid,
)

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

# Messages that may quote the value, or that an app's own validator wrote.
_QUOTING = {"value_error", "assertion_error", "union_tag_invalid", "uuid_parsing"}
_SAFE_MESSAGES = frozenset(get_args(ErrorType)) - _QUOTING

_READING: dict[str, Any] = {}
if sys.version_info >= (3, 14):
    from annotationlib import Format

    # There annotations are evaluated when read; one that names a later type must not fail yet.
    _READING["annotation_format"] = Format.FORWARDREF


@dataclass(frozen=True, slots=True)
class Refusal:
    """One value that JSON cannot carry: where it stands, what is wrong, what to do."""

    path: str
    problem: str
    remedy: str


@dataclass(slots=True)
class InputSchema:
    """The inputs of one job, read off its function's annotations.

    The first parameter is the context and no input. Annotations that name what is not yet
    defined are resolved at first use, so that a job may be declared above its types.

    Raises:
        JobSignatureInvalid: the parameters cannot be named inputs.
    """

    job: str
    func: Callable[..., Any]
    parameters: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)
    _adapter: TypeAdapter[dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        inputs = list(_signature(self.func).parameters.values())
        if not inputs or inputs[0].kind not in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        ):
            raise self._refused("its function takes no context", "make ctx the first parameter")
        if inputs[0].name in ("self", "cls"):
            raise self._refused(
                "a job is a function, and this is a method", "decorate a function at module level"
            )
        for parameter in inputs[1:]:
            self._check(parameter)
        self.parameters = tuple(parameter.name for parameter in inputs[1:])
        self.defaults = {
            parameter.name: parameter.default
            for parameter in inputs[1:]
            if parameter.default is not inspect.Parameter.empty
        }
        try:
            self._adapter = self._build()
        except (NameError, AttributeError):
            self._adapter = None

    def load(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs as validated values, defaults included.

        Raises:
            JobInputInvalid: an input is missing, unknown or of another type; all are named.
        """
        if not isinstance(inputs, Mapping):
            problem = f"input: is a {type(inputs).__name__}, not a mapping of inputs by name"
            raise JobInputInvalid(job=self.job, problems=[problem])
        try:
            return self.adapter.validate_python({**self.defaults, **inputs})
        except ValidationError as error:
            raise JobInputInvalid(job=self.job, problems=_problems(error)) from None

    def dump(self, values: Mapping[str, Any], *, max_bytes: int) -> str:
        """Return validated values as JSON text.

        Raises:
            JobPayloadInvalid: a value would not survive JSON; its path is named.
            JobInputInvalid: an object holds what its own annotations do not allow.
            JobPayloadTooLarge: the text is longer than ``max_bytes`` in UTF-8.
        """
        try:
            encoded = _keep_floats(self.adapter.dump_json(dict(values), warnings=False))
        except (PydanticSerializationError, ValueError, RecursionError):
            raise self._refused_value(find_refusal(values)) from None
        if len(encoded) > max_bytes:
            raise JobPayloadTooLarge(job=self.job, size=len(encoded), limit=max_bytes)
        self._check_round_trip(values, encoded)
        if _SUSPECT.search(encoded):
            refusal = find_refusal(from_json(encoded))
            if refusal is not None:
                raise self._refused_value(refusal)
        return encoded.decode()

    def _check_round_trip(self, values: Mapping[str, Any], encoded: bytes) -> None:
        """Refuse what a worker would read back as something else, or not at all."""
        try:
            restored = self.adapter.validate_json(encoded)
        except ValidationError as error:
            refusal = find_refusal(values)
            if refusal is not None:
                raise self._refused_value(refusal) from None
            raise JobInputInvalid(job=self.job, problems=_problems(error)) from None
        if restored != values:
            refusal = find_refusal(values) or find_change(values, restored)
            if refusal is not None:
                raise self._refused_value(refusal)

    def decode(self, payload: str) -> dict[str, Any]:
        """Return a stored payload as the values to call the function with.

        An older build may have written it: an input it lacks takes the function's default.

        Raises:
            JobInputInvalid: the payload does not fit today's annotations.
        """
        try:
            return self.adapter.validate_json(payload)
        except ValidationError as error:
            raise JobInputInvalid(job=self.job, problems=_problems(error)) from None

    @property
    def adapter(self) -> TypeAdapter[dict[str, Any]]:
        if self._adapter is None:
            try:
                self._adapter = self._build()
            except (NameError, AttributeError) as error:
                raise self._refused(
                    f"an annotation names what is not defined: {error}",
                    "import the annotated types at module level",
                ) from None
        return self._adapter

    def _build(self) -> TypeAdapter[dict[str, Any]]:
        hints = self._hints()
        shape = TypedDict(  # type: ignore[misc]
            "shape",
            {
                name: NotRequired[hints[name]] if name in self.defaults else hints[name]
                for name in self.parameters
            },
        )
        shape.__pydantic_config__ = ConfigDict(  # type: ignore[attr-defined]
            extra="forbid", strict=True
        )
        try:
            adapter = TypeAdapter(cast(Any, shape))
            self._check_defaults(adapter)
        except PydanticUserError as error:
            if error.code == "class-not-fully-defined":
                raise NameError("what the type of an input refers to") from None
            raise self._unsupported(hints, error) from None
        return adapter

    def _hints(self) -> dict[str, Any]:
        """Resolve the inputs only: ctx and the result may be annotated with what is not loaded."""
        declared = _signature(self.func).parameters
        holder = SimpleNamespace(
            __annotations__={name: declared[name].annotation for name in self.parameters}
        )
        globals_ = getattr(inspect.unwrap(self.func), "__globals__", {})
        try:
            return get_type_hints(holder, globalns=globals_, include_extras=True)
        except (SyntaxError, TypeError) as error:
            reason = str(error).split("\n", 1)[0]
            raise self._refused(
                f"an annotation is no type: {reason}", "annotate each input with a type"
            ) from None

    def _unsupported(self, hints: Mapping[str, Any], error: Exception) -> JobSignatureInvalid:
        for name in self.parameters:
            stored = next(_database_types(hints[name]), None)
            if stored is not None:
                return self._refused(
                    f'parameter "{name}" is annotated with {stored.__name__}, which lives in the '
                    "database and not in a payload",
                    f"pass the primary key: {name}_id: int",
                )
        reason = str(error).split("\n", 1)[0]
        return self._refused(
            f"an annotation cannot be an input: {reason}",
            "annotate inputs with JSON types, dates, Decimal, UUID, enums or dataclasses",
        )

    def _check_defaults(self, adapter: TypeAdapter[dict[str, Any]]) -> None:
        try:
            adapter.validate_python(dict(self.defaults))
        except ValidationError as error:
            wrong = sorted({str(item["loc"][0]) for item in error.errors()} & set(self.defaults))
            if wrong:
                raise self._refused(
                    f'the default of parameter "{wrong[0]}" is not of its annotated type',
                    f'give "{wrong[0]}" a default of its annotated type, or widen the annotation',
                ) from None

    def _check(self, parameter: inspect.Parameter) -> None:
        name = parameter.name
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise self._refused(
                f'parameter "{name}" cannot be passed by name', f'move "{name}" behind the slash'
            )
        if parameter.kind not in (
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            inspect.Parameter.KEYWORD_ONLY,
        ):
            raise self._refused(
                f'parameter "{name}" collects any number of arguments',
                "name each input as a parameter of its own",
            )
        if parameter.annotation is inspect.Parameter.empty:
            raise self._refused(
                f'parameter "{name}" has no annotation', f"annotate it, for example {name}: int"
            )

    def _refused(self, problem: str, fix: str) -> JobSignatureInvalid:
        return JobSignatureInvalid(job=self.job, problem=problem, fix=fix)

    def _refused_value(self, refusal: Refusal | None) -> JobPayloadInvalid:
        # What a serializer of the app says may quote the value, so its words are not repeated.
        found = refusal or Refusal("its root", "cannot be stored as JSON", "pass plain JSON values")
        return JobPayloadInvalid(
            job=self.job, path=found.path, problem=found.problem, remedy=found.remedy
        )


def _signature(func: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(func, **_READING)


def _database_types(hint: object) -> Iterator[type]:
    """Yield the models and querysets that an annotation names, also inside others."""
    if isinstance(hint, type) and issubclass(hint, Model | QuerySet):
        yield hint
    for inner in get_args(hint):
        yield from _database_types(inner)
    origin = getattr(hint, "__origin__", None)
    if origin is not None:
        yield from _database_types(origin)


def dump_result(job: str, value: object, *, max_bytes: int) -> str | None:
    """Return a body's return value as JSON text; ``None`` stays ``None``.

    Raises:
        ResultInvalid: JSON cannot carry it, or it is longer than ``max_bytes``.
    """
    if value is None:
        return None
    refusal = find_refusal(value, root="result")
    if refusal is not None:
        raise ResultInvalid(job=job, path=refusal.path, problem=refusal.problem)
    try:
        encoded = _keep_floats(to_json(value))
        stored = from_json(encoded)
    except (PydanticSerializationError, ValueError, RecursionError):
        raise ResultInvalid(
            job=job, path="result", problem="cannot be stored as JSON and read back"
        ) from None
    refusal = find_refusal(stored, root="result") if _SUSPECT.search(encoded) else None
    if refusal is not None:
        raise ResultInvalid(job=job, path=refusal.path, problem=refusal.problem)
    if len(encoded) > max_bytes:
        raise ResultInvalid(
            job=job, path="result", problem=f"is {len(encoded)} bytes, more than {max_bytes}"
        )
    return encoded.decode()


def _keep_floats(encoded: bytes) -> bytes:
    """Spell large floats without exponent: jsonb would turn ``1e+16`` into a whole number."""
    if not _HAS_EXPONENT.search(encoded):
        return encoded
    return _TEXT_OR_EXPONENT.sub(_spelled, encoded)


def _spelled(token: re.Match[bytes]) -> bytes:
    if token[0].startswith(b'"'):
        return token[0]
    digits = f"{Decimal(token[0].decode()):f}"
    return (digits if "." in digits else f"{digits}.0").encode()


def find_refusal(value: object, *, root: str = "") -> Refusal | None:
    """Return the first value inside that JSON or PostgreSQL cannot carry, depth first."""
    return _walk(value, root, 0, frozenset())


def _walk(value: object, path: str, depth: int, above: frozenset[int]) -> Refusal | None:
    place = _place(path)
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
    for key, inner_path, item in inside:
        found = _check_text(key, f"a key of {place}") if isinstance(key, str) else None
        found = found or _walk(item, inner_path, depth + 1, above | {id(value)})
        if found:
            return found
    return None


def _inside(value: object, path: str) -> Iterator[tuple[object, str, object]] | None:
    """Return each (key, path, item) of a container, or ``None`` where the value is none."""
    if isinstance(value, Mapping):
        return ((key, _inner(path, key), item) for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return ((None, f"{path}[{index}]", item) for index, item in enumerate(value))
    named = _fields(value)
    if named is None:
        return None
    return ((None, _inner(path, name), item) for name, item in named.items())


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
        return Refusal(
            _place(path),
            f"is a {type(before).__name__} and would come back as a {type(after).__name__}",
            "annotate it with its own type, or pass plain JSON values",
        )
    if _is_same(before, after):
        return None
    return Refusal(
        _place(path),
        f"is a {type(before).__name__} that JSON does not give back as it was",
        "pass plain JSON values",
    )


def _change_inside(
    before: Mapping[Any, Any], after: Mapping[Any, Any], path: str
) -> Refusal | None:
    for key, item in before.items():
        if key not in after:
            return Refusal(
                _place(path), f"has a {type(key).__name__} as a key", "make every key a str"
            )
        change = find_change(item, after[key], _inner(path, key))
        if change:
            return change
    return None


def _is_same(before: object, after: object) -> bool:
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


def _place(path: str) -> str:
    return path if len(path) <= MAX_PATH else path[: MAX_PATH - 3] + "..."


def _inner(path: str, key: object) -> str:
    return f"{path}.{_shown(key)}" if path else _shown(key)


def _shown(key: object) -> str:
    text = str(key).encode("ascii", "backslashreplace").decode().replace("\x00", "\\x00")
    return text if len(text) <= 60 else text[:57] + "..."


def _problems(error: ValidationError) -> list[str]:
    """Name each field and what is expected there, never the value: it may be a secret."""
    lines = []
    for item in error.errors(include_url=False, include_context=False):
        path = ""
        for part in item["loc"]:
            path = f"{path}[{part}]" if isinstance(part, int) else _inner(path, part)
        lines.append(f"{_place(path) if path else 'input'}: {_problem(item)}")
    return list(dict.fromkeys(lines))


def _problem(item: ErrorDetails) -> str:
    if item["type"] not in ("missing", "extra_forbidden", "json_invalid"):
        refusal = find_refusal(item["input"])
        if refusal is not None:
            return f"{refusal.problem}; {refusal.remedy}"
    if item["type"] not in _SAFE_MESSAGES:
        return f"is refused by its annotation ({_shown(item['type'])})"
    return item["msg"][:200]
