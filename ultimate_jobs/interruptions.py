"""What stops a body from outside: control flow, not failure, so ``except Exception`` misses it."""

from __future__ import annotations


class Interruption(BaseException):
    """Base of what a running body must not swallow."""


class JobCancelled(Interruption):
    """The run was cancelled; the body stops at its next check."""


class ClaimLost(Interruption):
    """The claim belongs to another worker now; nothing this body writes will be kept."""
