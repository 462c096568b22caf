"""Loads the places: every subdivision of ISO 3166-2, with its names as pycountry ships them."""

from __future__ import annotations

import gettext
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pycountry

from example_project.places.models import Subdivision

DOMAIN = "iso3166-2"
CHUNK = 1000


def load_subdivisions(languages: Iterable[str], *, limit: int = 0) -> list[str]:
    """Store the places, or update those that are there, and return their codes in order.

    Args:
        languages: load the names that differ in these.
        limit: only the first places by code; 0 means all.
    """
    names = {language: _translations(language) for language in languages}
    places = sorted(pycountry.subdivisions, key=lambda place: place.code)
    rows = [_row(place, names) for place in places[: limit or None]]
    Subdivision.objects.bulk_create(
        rows,
        batch_size=CHUNK,
        update_conflicts=True,
        unique_fields=["code"],
        update_fields=["name", "country", "type", "parent_code", "names"],
    )
    return [row.code for row in rows]


def _row(place: Any, names: dict[str, gettext.NullTranslations]) -> Subdivision:
    return Subdivision(
        code=place.code,
        name=place.name,
        country=place.country_code,
        type=place.type,
        parent_code=place.parent_code or "",
        names=dict(_names(place.name, names)),
    )


def _names(name: str, names: dict[str, gettext.NullTranslations]) -> Iterator[tuple[str, str]]:
    for language, translations in names.items():
        translated = translations.gettext(name)
        if translated != name:
            yield language, translated


def _translations(language: str) -> gettext.NullTranslations:
    folder = Path(pycountry.LOCALES_DIR)
    return gettext.translation(DOMAIN, folder, languages=[language], fallback=True)
