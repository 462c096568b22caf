"""What stops a body from outside: control flow, not failure, so ``except Exception`` misses it."""

from __future__ import annotations


class Interruption(BaseException):
    """Base of what a running body must not swallow."""


class JobCancelled(Interruption):
    """The run was cancelled; the body stops at its next check."""


class AttemptTimeout(Interruption):
    """The attempt has run as long as its ``timeout`` allows; it counts as failed."""


class ClaimLost(Interruption):
    """The claim belongs to another worker now; nothing this body writes will be kept."""
