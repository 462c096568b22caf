"""What every error of this package is: a code, a cause, a fix of one line, a page in the docs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

# code -> class. The one registry of codes; filled as the classes are defined.
CODES: dict[str, type[UltimateJobsError]] = {}


class UltimateJobsError(Exception):
    """Base of every error this package raises.

    Attributes:
        code: stable identifier, ``X_...``.
        cause: what was wrong and where, in one sentence; never a payload or a key.
        fix: one line that can be run, or one edit to make.
        docs: the page that explains the code, relative to the repository.
    """

    code: ClassVar[str]

    def __init__(self, *, cause: str, fix: str) -> None:
        self.cause = cause
        self.fix = fix
        super().__init__(cause, fix)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "code" in cls.__dict__:
            if cls.code in CODES:
                raise RuntimeError(f"error code {cls.code} is declared twice")
            CODES[cls.code] = cls

    def __reduce__(self) -> tuple[object, ...]:
        # The subclasses take facts, not sentences; an error crosses processes as its sentences,
        # and keeps what else it tells.
        return (_rebuild, (type(self), self.cause, self.fix), self.__dict__)

    @property
    def docs(self) -> str:
        return f"docs/reference/errors/{self.code.lower()}.md"

    def __str__(self) -> str:
        return f"{self.code}: {self.cause}\n  fix: {self.fix}\n  docs: {self.docs}"

    def as_dict(self) -> dict[str, str]:
        """Return the error as the object that ``--json`` prints."""
        return {"code": self.code, "cause": self.cause, "fix": self.fix, "docs": self.docs}


def _rebuild(kind: type[UltimateJobsError], cause: str, fix: str) -> UltimateJobsError:
    error = kind.__new__(kind)
    UltimateJobsError.__init__(error, cause=cause, fix=fix)
    return error


def listing(names: Iterable[str]) -> str:
    """Return names as a cause shows them."""
    return ", ".join(sorted(names)) or "none"
