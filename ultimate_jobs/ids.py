"""UUIDv7 ids: they sort by creation time, which keeps the primary key's inserts at its right edge."""

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
