"""UUIDv7 ids sort by creation time, so the primary key grows at its right edge only."""

from __future__ import annotations

import sys
from datetime import datetime
from uuid import UUID

if sys.version_info >= (3, 14):
    from uuid import uuid7
else:
    from uuid_utils.compat import uuid7

__all__ = ["FIRST_ID", "LAST_ID", "first_id_at", "new_id"]

FIRST_ID = UUID(int=0)
LAST_ID = UUID(int=2**128 - 1)
_BITS_BELOW_THE_TIME = 80


def new_id() -> UUID:
    """Return a new UUIDv7 (RFC 9562), monotonic within this process."""
    return uuid7()


def first_id_at(moment: datetime) -> UUID:
    """Return the smallest UUID that ``new_id`` could return at an instant; earlier ones sort first.

    Args:
        moment: an aware datetime; before 1970 it counts as 1970.
    """
    epoch_ms = max(0, int(moment.timestamp() * 1000))
    return UUID(int=epoch_ms << _BITS_BELOW_THE_TIME)
