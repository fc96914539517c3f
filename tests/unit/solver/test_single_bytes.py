"""What is looked up byte by byte in western texts is what is found character by character in all others."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import pytest

from solver.features import FeatureCounts
from solver.features import texts as texts_module
from solver.features.texts import TextColumns, TextOptions
from solver.kinds import beyond_ascii, normalized
from solver.single_bytes import bytes_where, single_bytes

WESTERN = [chr(code) for code in range(0x3000) if single_bytes(chr(code)) is not None]


def test_a_byte_is_a_character_of_windows_1252() -> None:
    assert len(WESTERN) == 251
    assert single_bytes("naïve – “€5”") == "naïve – “€5”".encode("cp1252")
    for text in ("水", "\x81", "\ud800", "a\u0301"):
        assert single_bytes(text) is None
    assert bytes_where(str.isdecimal) == b"0123456789"


def test_words_are_those_of_regular_expressions() -> None:
    text = " ".join(f"{sign}ab{sign}c{sign}{sign} {sign} d" for sign in WESTERN)
    assert texts_module._words(text) == re.findall(r"\w{2,}", text)


def test_normalised_are_all_pairs_of_characters() -> None:
    visible = [sign for sign in WESTERN if sign != "\u00ad"]
    for sign in visible:
        text = "".join(f"{sign}{other}x{other}" for other in visible)
        assert normalized(text) == (unicodedata.normalize("NFKC", text), 0)


def test_what_is_beyond_ascii() -> None:
    assert beyond_ascii("aé\ud800水b\udc00\U0001f600") == "é\ud800水\udc00\U0001f600"


@pytest.mark.parametrize("options", [TextOptions(), TextOptions(words=2), TextOptions(words=0, characters=6)])
def test_a_long_text_alone_weighs_as_beside_others(options: TextOptions) -> None:
    rng = np.random.default_rng(1)
    words = ["".join(letters) for letters in rng.choice(list("abcdeé-"), (3000, 5)).tolist()]
    long = " ".join(rng.choice(words, 6000))
    fitted, _ = TextColumns.fit({"t": [long, *words[:100]]}, options, [])
    fitted.transform([[long, *words[:100]]], FeatureCounts())  # what was fitted is remembered for one call
    alone = fitted.transform([[long]], FeatureCounts())
    beside = fitted.transform([[long, "abc"]], FeatureCounts())[:1]
    assert alone.nnz > 300
    np.testing.assert_array_equal(alone.indices, beside.indices)
    np.testing.assert_array_equal(alone.data, beside.data)
