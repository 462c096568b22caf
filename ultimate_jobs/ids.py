"""UUIDv7 ids sort by creation time, so the primary key grows at its right edge only."""

from __future__ import annotations

import sys
from uuid import UUID

if sys.version_info >= (3, 14):
    from uuid import uuid7
else:
    from uuid_utils.compat import uuid7

__all__ = ["new_id"]


def new_id() -> UUID:
    """Return a new UUIDv7 (RFC 9562), monotonic within this process."""
    return uuid7()
