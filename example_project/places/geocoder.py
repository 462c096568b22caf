"""A remote geocoder as remote services are: it does not answer at first.

Simulated by the number of the attempt, so that every run of the demo meets the same failures.
"""

from __future__ import annotations

from example_project.places.models import Subdivision

FAILS = 2


class GeocoderUnavailable(Exception):
    """The service did not answer."""


def address(code: str, *, attempt: int) -> str:
    """Return the full address of a place, from its own name up to its country.

    Raises:
        GeocoderUnavailable: on the first two attempts.
    """
    if attempt <= FAILS:
        raise GeocoderUnavailable(f"no answer for {code} within 2 s, try {attempt}")
    return ", ".join(_upwards(code))


def _upwards(code: str) -> list[str]:
    place = Subdivision.objects.get(pk=code)
    parts = [place.name]
    # A parent that was not loaded ends the way up.
    while parent := Subdivision.objects.filter(pk=place.parent_code).first():
        parts.append(parent.name)
        place = parent
    return [*parts, place.country]
