"""A function's annotations as its input schema, and values as JSON text that means the same."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NotRequired, cast, get_args, get_type_hints

from django.db.models import Model
from django.db.models.query import QuerySet
from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
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
from ultimate_jobs.storable import (
    Refusal,
    find_change,
    find_in_text,
    find_refusal,
    inner_path,
    keep_floats,
    place_of,
    shown,
)

# Messages that may quote the value, or that an app's own validator wrote.
_QUOTING = {"value_error", "assertion_error", "union_tag_invalid", "uuid_parsing"}
_SAFE_MESSAGES = frozenset(get_args(ErrorType)) - _QUOTING

_READING: dict[str, Any] = {}
if sys.version_info >= (3, 14):
    from annotationlib import Format

    # There annotations are evaluated when read; one that names a later type must not fail yet.
    _READING["annotation_format"] = Format.FORWARDREF


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
    _shown_inputs: str = ""

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
        self._shown_inputs = ", ".join(_shown_input(parameter) for parameter in inputs[1:])
        try:
            self._adapter = self._build()
        except (NameError, AttributeError):
            self._adapter = None

    def invalid(self, problems: Sequence[str]) -> JobInputInvalid:
        """Return the refusal of inputs, whose fix tells what the function takes."""
        return JobInputInvalid(job=self.job, problems=problems, inputs=self._shown_inputs)

    def load(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs as validated values, defaults included.

        Raises:
            JobInputInvalid: an input is missing, unknown or of another type; all are named.
        """
        if not isinstance(inputs, Mapping):
            problem = f"input: is a {type(inputs).__name__}, not a mapping of inputs by name"
            raise self.invalid([problem])
        try:
            return self.adapter.validate_python({**self.defaults, **inputs})
        except ValidationError as error:
            raise self.invalid(_problems(error)) from None

    def dump(self, values: Mapping[str, Any], *, max_bytes: int) -> str:
        """Return validated values as JSON text.

        Raises:
            JobPayloadInvalid: a value would not survive JSON; its path is named.
            JobInputInvalid: an object holds what its own annotations do not allow.
            JobPayloadTooLarge: the text is longer than ``max_bytes`` in UTF-8.
        """
        try:
            encoded = keep_floats(self.adapter.dump_json(dict(values), warnings=False))
        except (PydanticSerializationError, ValueError, RecursionError):
            raise self._refused_value(find_refusal(values)) from None
        if len(encoded) > max_bytes:
            raise JobPayloadTooLarge(job=self.job, size=len(encoded), limit=max_bytes)
        self._check_round_trip(values, encoded)
        refusal = find_in_text(encoded)
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
            raise self.invalid(_problems(error)) from None
        if restored != values:
            refusal = find_change(values, restored)
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
            raise self.invalid(_problems(error)) from None

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
        encoded = keep_floats(to_json(value))
        from_json(encoded)
        refusal = find_in_text(encoded, root="result")
    except (PydanticSerializationError, ValueError, RecursionError):
        raise ResultInvalid(
            job=job, path="result", problem="cannot be stored as JSON and read back"
        ) from None
    if refusal is not None:
        raise ResultInvalid(job=job, path=refusal.path, problem=refusal.problem)
    if len(encoded) > max_bytes:
        raise ResultInvalid(
            job=job, path="result", problem=f"is {len(encoded)} bytes, more than {max_bytes}"
        )
    return encoded.decode()


def _problems(error: ValidationError) -> list[str]:
    """Name each field and what is expected there, never the value: it may be a secret."""
    lines = []
    for item in error.errors(include_url=False, include_context=False):
        path = ""
        for part in item["loc"]:
            path = f"{path}[{part}]" if isinstance(part, int) else inner_path(path, part)
        lines.append(f"{place_of(path) if path else 'input'}: {_problem(item)}")
    return list(dict.fromkeys(lines))


def _problem(item: ErrorDetails) -> str:
    if item["type"] not in ("missing", "extra_forbidden", "json_invalid"):
        refusal = find_refusal(item["input"])
        if refusal is not None:
            return f"{refusal.problem}; {refusal.remedy}"
    if item["type"] not in _SAFE_MESSAGES:
        return f"is refused by its annotation ({shown(item['type'])})"
    return item["msg"][:200]


# By annotation: what stands for an input of it in a call that Python reads.
_SAMPLES = {"str": '"..."', "int": "1", "float": "1.0", "bool": "True"}


def _shown_input(parameter: inspect.Parameter) -> str:
    annotation = parameter.annotation
    shown = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return f"{parameter.name}={_SAMPLES.get(shown.strip(), '...')}"
