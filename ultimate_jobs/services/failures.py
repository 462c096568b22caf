"""Any exception as text that every column can hold, whatever the exception does to prevent it."""

from __future__ import annotations

from pathlib import Path
from traceback import StackSummary, TracebackException, walk_stack
from types import FrameType, TracebackType

from ultimate_jobs.errors import UltimateJobsError
from ultimate_jobs.types import Failure

# In UTF-8 bytes.
MAX_CLASS = 512
MAX_MESSAGE = 8 * 1024
MAX_TRACEBACK = 64 * 1024
MAX_REASON = 1024

_PACKAGE = str(Path(__file__).parents[1])


def describe_failure(error: BaseException, *, note: str = "") -> Failure:
    """Return an exception's class, message and traceback, cut to size and free of NUL.

    Never raises. Values of local variables are not part of it.

    Args:
        note: what else went wrong, appended to the message.
    """
    message = _message(error)
    return Failure(
        error_class=shorten(_class_path(error), MAX_CLASS),
        message=shorten(f"{message}\n{note}" if note else message, MAX_MESSAGE),
        traceback=shorten(_traceback(error), MAX_TRACEBACK, tail=MAX_TRACEBACK // 2),
    )


def describe_stack(frame: FrameType) -> str:
    """Return where a body is that still runs, outermost call first; never raises."""
    try:
        calls = StackSummary.extract(walk_stack(frame))
        calls.reverse()
        shown = "Still running (most recent call last):\n" + "".join(calls.format())
    except BaseException as error:
        return f"<where it is cannot be shown: {type(error).__name__}>"
    return shorten(shown, MAX_TRACEBACK, tail=MAX_TRACEBACK // 2)


def shorten(text: str, limit: int, *, tail: int = 0) -> str:
    """Return text of at most ``limit`` UTF-8 bytes, NUL and half surrogates shown as escapes.

    Args:
        tail: how many of the bytes are kept for the end of the text.
    """
    # Cut by characters first: a text of 50 MB is not worth encoding whole.
    encoded = _encode(text if len(text) <= 2 * limit else text[:limit] + text[-limit:])
    if len(encoded) <= limit:
        return encoded.decode()
    mark = f"... [{len(text)} characters in all] ..."
    head = limit - tail - len(mark)
    end = encoded[-tail:] if tail else b""
    return _decode(encoded[:head]) + mark + _decode(end)


def _encode(text: str) -> bytes:
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace")


def _decode(cut: bytes) -> str:
    return cut.decode("utf-8", "ignore")


def _class_path(error: BaseException) -> str:
    if isinstance(error, UltimateJobsError):
        return error.code
    kind = type(error)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        # Copied into an exact str: a subclass may change what slicing and joining do.
        return str.__str__(error.cause if isinstance(error, UltimateJobsError) else str(error))
    except BaseException as second:
        # str() of a foreign object may raise anything.
        return f"<its message cannot be shown: str() raised {type(second).__name__}>"


def _traceback(error: BaseException) -> str:
    try:
        shown = TracebackException(type(error), error, _frames_of_the_app(error.__traceback__))
        return "".join(shown.format())
    except BaseException as second:
        return f"<its traceback cannot be shown: {type(second).__name__}>"


def _frames_of_the_app(frames: TracebackType | None) -> TracebackType | None:
    """Leave out the frames by which this package called the body, unless there are no others."""
    rest = frames
    while rest is not None and rest.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        rest = rest.tb_next
    return frames if rest is None else rest
