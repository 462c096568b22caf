"""Events as stdlib log records: the event name is the message, the facts are its fields."""

from __future__ import annotations

import logging
from typing import Any

from ultimate_jobs.events import EVENTS

logger = logging.getLogger("ultimate_jobs")


def log_event(name: str, facts: dict[str, Any]) -> None:
    """Write one event at its declared level, as ``name key=value ...``."""
    level, _ = EVENTS[name]
    if logger.isEnabledFor(level):
        shown = " ".join(f"{key}={_one_line(value)}" for key, value in facts.items())
        logger.log(level, "%s %s", name, shown, extra={"event": name, "facts": facts})


def _one_line(value: object) -> str:
    # A job's name comes from a row: it must not be able to forge a second log line.
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in str(value))
