"""How a name becomes searchable, in any script."""

from __future__ import annotations

import unicodedata
from collections import Counter

# In these scripts a mark is an accent that people leave out; in others it is a vowel.
ACCENTED = ("LATIN", "CYRILLIC", "GREEK")
APOSTROPHES = dict.fromkeys((0x27, 0x60, 0xB4, 0x2BB, 0x2BC, 0x2018, 0x2019))


def fold(name: str) -> str:
    """Return the name as people type it: lower case, without accents and apostrophes."""
    decomposed = unicodedata.normalize("NFKD", name.translate(APOSTROPHES))
    kept = []
    script = ""
    for character in decomposed:
        if not unicodedata.combining(character):
            script = _script(character)
        elif script in ACCENTED:
            continue
        kept.append(character)
    return unicodedata.normalize("NFC", "".join(kept)).casefold().strip()


def slug(name: str) -> str:
    """Return the folded name for a URL; letters of any script stay."""
    return "-".join(_words(name))


def initials(name: str) -> str:
    """Return the first letter of each word, such as RAK for Ra's al Khaymah."""
    return "".join(word[0] for word in _words(name)).upper()[:40]


def scripts(name: str) -> dict[str, int]:
    """Return how many letters of each writing system the name has."""
    return dict(Counter(_script(letter) for letter in name if letter.isalpha()))


def _words(name: str) -> list[str]:
    # Django's slugify drops the vowel signs of Indic scripts and Thai, which are marks.
    kept = (letter if _is_of_word(letter) else " " for letter in fold(name))
    return "".join(kept).split()


def _is_of_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"


def _script(character: str) -> str:
    # The first word of a character's Unicode name is its script, but for spaces and signs.
    return unicodedata.name(character, "UNKNOWN").split()[0].split("-")[0]
