"""Names become searchable in any script."""

from __future__ import annotations

import pytest

from example_project.places import names


@pytest.mark.parametrize(
    ("name", "folded"),
    [
        ("Sant Julià de Lòria", "sant julia de loria"),
        ("‘Ajmān", "ajman"),  # noqa: RUF001
        ("Київська область", "киівська область"),
        ("पश्चिम बंगाल", "पश्चिम बंगाल"),
        ("北京市", "北京市"),
    ],
)
def test_fold_drops_accents_and_keeps_vowel_signs(name, folded):
    """An accent is what people leave out; a vowel sign of an Indic script is not."""
    assert names.fold(name) == folded


def test_slug_keeps_every_script():
    """A slug is made of the name's own letters, not of nothing."""
    assert names.slug("A Coruña [La Coruña]") == "a-coruna-la-coruna"
    assert names.slug("தமிழ் நாடு") == "தமிழ்-நாடு"


def test_initials_take_one_letter_a_word():
    """Words count, and an apostrophe parts none."""
    assert names.initials("Ra’s al Khaymah") == "RAK"  # noqa: RUF001


def test_scripts_counts_letters_by_writing_system():
    """Signs and spaces belong to no script."""
    assert names.scripts("東京 Tokyo (13)") == {"CJK": 2, "LATIN": 5}
