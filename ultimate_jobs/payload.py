"""A function's annotations as its input schema, and values as JSON text that means the same."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NotRequired, get_type_hints

from django.db.models import Model
from django.db.models.query import QuerySet
from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError
from pydantic_core import PydanticSerializationError, to_json
from typing_extensions import TypedDict

from ultimate_jobs.errors import (
    JobInputInvalid,
    JobPayloadInvalid,
    JobPayloadTooLarge,
    JobSignatureInvalid,
    ResultInvalid,
)

MAX_DEPTH = 64

# Cheap witnesses in the dumped text; only a hit pays for the walk that finds the path.
_NUL = "\\u0000"
_NOT_FINITE = re.compile(r"(?<![\w\"])(?:NaN|-?Infinity)")


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
        inputs = list(inspect.signature(self.func).parameters.values())
        if not inputs or inputs[0].kind not in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        ):
            raise self._refused("its function takes no context", "make ctx the first parameter")
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
        except NameError:
            self._adapter = None

    def load(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs as validated values, defaults included.

        Raises:
            JobInputInvalid: an input is missing, unknown or of another type; all are named.
        """
        try:
            given = self.adapter.validate_python(dict(inputs))
        except ValidationError as error:
            raise JobInputInvalid(job=self.job, problems=_problems(error)) from None
        return {**self.defaults, **given}

    def dump(self, values: Mapping[str, Any], *, max_bytes: int) -> str:
        """Return validated values as JSON text.

        Raises:
            JobPayloadInvalid: a value would not survive JSON; its path is named.
            JobPayloadTooLarge: the text is longer than ``max_bytes`` in UTF-8.
        """
        try:
            encoded = self.adapter.dump_json(dict(values), warnings=False)
        except (PydanticSerializationError, ValueError, RecursionError) as error:
            raise self._unstorable(values, str(error)) from None
        text = encoded.decode()
        if _NUL in text or _NOT_FINITE.search(text):
            refusal = find_refusal(values)
            if refusal is not None:
                raise self._from_refusal(refusal)
        if len(encoded) > max_bytes:
            raise JobPayloadTooLarge(job=self.job, size=len(encoded), limit=max_bytes)
        return text

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
            except NameError as error:
                raise self._refused(
                    f"an annotation names what is not defined: {error}",
                    "import the annotated types at module level",
                ) from None
        return self._adapter

    def _build(self) -> TypeAdapter[dict[str, Any]]:
        hints = get_type_hints(self.func, include_extras=True)
        fields: dict[str, Any] = {
            name: NotRequired[hints[name]] if name in self.defaults else hints[name]
            for name in self.parameters
        }
        shape = TypedDict("shape", fields)  # type: ignore[misc]
        shape.__pydantic_config__ = ConfigDict(  # type: ignore[attr-defined]
            extra="forbid", strict=True, ser_json_inf_nan="constants"
        )
        try:
            return TypeAdapter(shape)
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise self._unsupported(hints, error) from None

    def _unsupported(self, hints: Mapping[str, Any], error: Exception) -> JobSignatureInvalid:
        for name in self.parameters:
            hint = hints[name]
            if isinstance(hint, type) and issubclass(hint, Model | QuerySet):
                return self._refused(
                    f'parameter "{name}" is annotated with {hint.__name__}, which lives in the '
                    "database and not in a payload",
                    f"pass the primary key: {name}_id: int",
                )
        reason = str(error).split("\n", 1)[0]
        return self._refused(
            f"an annotation cannot be an input: {reason}",
            "annotate inputs with JSON types, dates, Decimal, UUID, enums or dataclasses",
        )

    def _check(self, parameter: inspect.Parameter) -> None:
        name = parameter.name
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

    def _unstorable(self, values: Mapping[str, Any], reason: str) -> JobPayloadInvalid:
        refusal = find_refusal(values)
        if refusal is None:
            first = reason.split("\n", 1)[0]
            refusal = Refusal("its root", f"cannot be stored: {first}", "pass plain JSON values")
        return self._from_refusal(refusal)

    def _from_refusal(self, refusal: Refusal) -> JobPayloadInvalid:
        return JobPayloadInvalid(
            job=self.job, path=refusal.path, problem=refusal.problem, remedy=refusal.remedy
        )


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
        encoded = to_json(value)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        reason = str(error).split("\n", 1)[0]
        raise ResultInvalid(job=job, path="result", problem=f"cannot be stored: {reason}") from None
    if len(encoded) > max_bytes:
        raise ResultInvalid(
            job=job, path="result", problem=f"is {len(encoded)} bytes, more than {max_bytes}"
        )
    return encoded.decode()


def find_refusal(value: object, *, root: str = "") -> Refusal | None:
    """Return the first value inside that JSON or PostgreSQL cannot carry, depth first."""
    return _walk(value, root, 0, set())


def _walk(value: object, path: str, depth: int, above: set[int]) -> Refusal | None:
    place = path or "its root"
    if isinstance(value, str):
        return _check_text(value, place)
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
    if callable(value) and not isinstance(value, type) or inspect.isgenerator(value):
        return Refusal(place, f"is a {type(value).__name__}", "pass plain JSON values")
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        if id(value) in above:
            return Refusal(place, "contains itself", "pass a value without cycles")
        if depth >= MAX_DEPTH:
            return Refusal(place, f"is nested over {MAX_DEPTH} deep", "pass a flatter value")
        return _walk_inside(value, path, depth, above | {id(value)})
    try:
        to_json(value)
    except (PydanticSerializationError, ValueError):
        return Refusal(place, f"is a {type(value).__name__}", "pass plain JSON values")
    return None


def _walk_inside(
    value: Mapping[Any, Any] | list[Any] | tuple[Any, ...] | set[Any] | frozenset[Any],
    path: str,
    depth: int,
    above: set[int],
) -> Refusal | None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            inner = f"{path}.{_shown(key)}" if path else _shown(key)
            found = _check_text(key, f"a key of {path or 'its root'}") if isinstance(key, str) else None
            found = found or _walk(item, inner, depth + 1, above)
            if found:
                return found
        return None
    for index, item in enumerate(value):
        found = _walk(item, f"{path}[{index}]", depth + 1, above)
        if found:
            return found
    return None


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


def _shown(key: object) -> str:
    text = str(key).encode("ascii", "backslashreplace").decode().replace("\x00", "\\x00")
    return text if len(text) <= 60 else text[:57] + "..."


def _problems(error: ValidationError) -> list[str]:
    """Name each field and what is expected there, never the value: it may be a secret."""
    lines = []
    for item in error.errors(include_url=False, include_input=False, include_context=False):
        path = ""
        for part in item["loc"]:
            path += f"[{part}]" if isinstance(part, int) else f".{_shown(part)}" if path else _shown(part)
        lines.append(f"{path or 'input'}: {item['msg'][:200]}")
    return lines
