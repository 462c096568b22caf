"""Keys, names, queues and tenants: what may be stored and indexed, and how a key is computed."""

from __future__ import annotations

import inspect
import logging
import string
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from ultimate_jobs.errors import IdempotencyRequired, JobKeyInvalid, JobOptionInvalid

logger = logging.getLogger("ultimate_jobs.identity")

# In UTF-8 bytes. name + tenant + key share one btree entry, which holds at most 2704.
MAX_BYTES = {"name": 255, "queue": 127, "tenant": 255, "key": 1024, "serial": 1024}

KeyFunction = Callable[[Mapping[str, Any]], str]


def check_text(job: str | None, what: str, value: object) -> str:
    """Return a name, queue, tenant or key that can be stored as it is.

    Args:
        job: whose it is; ``None`` where it belongs to no job.

    Raises:
        JobKeyInvalid: it is no text, is empty, is too long, or holds NUL or half a surrogate pair;
            or a queue holds a comma, or begins or ends with white space.
    """
    if not isinstance(value, str):
        raise _refused(job, what, f"is {type(value).__name__}, not str", f"make the {what} a str")
    if not value:
        raise _refused(job, what, "is empty", f"give the {what} at least one character")
    if "\x00" in value:
        raise _refused(job, what, "contains a NUL character", f"remove it from the {what}")
    if what == "queue" and "," in value:
        # Workers are told their queues as a list with commas.
        raise _refused(job, what, "contains a comma", f"remove it from the {what}")
    if what == "queue" and value != value.strip():
        problem = "begins or ends with white space"
        raise _refused(job, what, problem, f"remove it from the {what}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise _refused(
            job, what, "contains half of a surrogate pair", f"remove it from the {what}"
        ) from None
    if size > MAX_BYTES[what]:
        raise _refused(
            job,
            what,
            f"is {size} bytes of UTF-8 and the limit is {MAX_BYTES[what]}",
            f"shorten the {what}, for example to hashlib.sha256(value).hexdigest()",
        )
    return value


def key_function(
    job: str, key: object, parameters: tuple[str, ...], *, option: str = "key"
) -> KeyFunction:
    """Return what computes the key of validated inputs.

    Args:
        key: a format string over the inputs, or a callable that takes them by name.
        option: the option of ``@job`` that it was given as.

    Raises:
        IdempotencyRequired: there is no key.
        JobOptionInvalid: it is neither, cannot be called so, or names what is no input.
    """
    if key is None or key == "":
        raise IdempotencyRequired(job=job, parameters=parameters)
    if isinstance(key, str):
        _check_fields(job, key, parameters, option)
        return _from_template(job, key)
    if callable(key):
        _check_callable(job, key, parameters, option)
        return lambda inputs: key(**inputs)
    raise JobOptionInvalid(
        option=option,
        problem=f'of job "{job}" is {type(key).__name__}, neither a format string nor a callable',
        fix=f'declare it as @job({option}="{_sample_key(job, parameters)}")',
    )


def _sample_key(job: str, parameters: tuple[str, ...]) -> str:
    """Return a key over the first input: a constant one would dedupe every run of the job."""
    short = job.rsplit(".", 1)[-1]
    return f"{short}:{{{parameters[0]}}}" if parameters else short


def _from_template(job: str, template: str) -> KeyFunction:
    def compute(inputs: Mapping[str, Any]) -> str:
        try:
            return template.format(**inputs)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            # The error's own words may quote an input.
            raise _refused(
                job,
                "key",
                f"cannot be formatted from these inputs ({type(error).__name__})",
                f"declare job {job} with a key that fits every input",
            ) from None

    return compute


def _check_fields(job: str, template: str, parameters: tuple[str, ...], option: str) -> None:
    try:
        names = list(_field_names(template))
    except ValueError as error:
        raise JobOptionInvalid(
            option=option,
            problem=f'of job "{job}" is no format string: {error}',
            fix='write it like "invoice:{invoice_id}"',
        ) from None
    for name in names:
        root = name.split(".", 1)[0].split("[", 1)[0]
        if root not in parameters:
            raise JobOptionInvalid(
                option=option,
                problem=f'of job "{job}" names "{root}", which is none of its inputs '
                f"({', '.join(parameters) or 'it has none'})",
                fix=f'write it over the inputs, like "job:{{{parameters[0]}}}"'
                if parameters
                else f'write it without braces: {option}="{job.rsplit(".", 1)[-1]}"',
            )


def _field_names(template: str) -> Iterator[str]:
    """Yield each field, those inside a format specification included."""
    for _, name, specification, conversion in string.Formatter().parse(template):
        if name is None:
            continue
        if conversion not in (None, "s", "r", "a"):
            raise ValueError(f"unknown conversion !{conversion}")
        yield name
        yield from _field_names(specification or "")


def _check_callable(
    job: str, key: Callable[..., Any], parameters: tuple[str, ...], option: str
) -> None:
    if inspect.iscoroutinefunction(key):
        problem = "is async, and a key is computed before anything is awaited"
    else:
        try:
            inspect.signature(key).bind(**dict.fromkeys(parameters))
        except ValueError:
            return  # a builtin that does not tell its parameters
        except TypeError as error:
            problem = f"cannot be called with the inputs by name: {error}"
        else:
            return
    raise JobOptionInvalid(
        option=option,
        problem=f'of job "{job}" {problem}',
        fix=f"declare it as {option}=lambda {', '.join(parameters) or '**inputs'}: ...",
    )


def _refused(job: str | None, what: str, problem: str, fix: str) -> JobKeyInvalid:
    return JobKeyInvalid(job=job, what=what, problem=problem, fix=fix)


def key_of_stored(
    what: str, compute: Callable[..., Any] | None, inputs: Mapping[str, Any] | None
) -> str | None:
    """Return the key of a stored job, or ``None`` where none can be computed; never raises.

    Args:
        what: which key it is, for the log.
        inputs: ``None`` where the stored ones cannot be read.
    """
    if inputs is None or compute is None:
        return None
    try:
        return str(compute(inputs))
    except Exception as error:
        # An older build let these inputs pass; they must not stop the claim of other jobs.
        _tell_once(what, type(error).__name__)
        return None


@cache
def _tell_once(what: str, error_class: str) -> None:
    """Log it once per process: a stored job is looked at many times a second."""
    logger.warning("%s raised %s for a stored job, which counts without it", what, error_class)
