"""Runs of characters are found where cutting each word would find them."""

from __future__ import annotations

import numpy as np
import pytest

from solver.features import runs as runs_module
from solver.features.runs import SHORTEST_CHARACTERS, RunIndex, parted

ALPHABET = ["a", "b", "c", "é", "水", "\U0001f600", "\0", "\ud800", "-"]


def cut(words: list[str], terms: list[str], longest: int) -> list[tuple[int, int]]:
    """Place and number of every term, found by looking at each place of each word."""
    found, begin = [], 0
    for word in words:
        padded = f" {word} "
        found += [
            (begin + at, terms.index(padded[at : at + length]))
            for length in range(SHORTEST_CHARACTERS, longest + 1)
            for at in range(len(padded) - length + 1)
            if padded[at : at + length] in terms
        ]
        begin += len(padded)
    return sorted(found)


def drawn(rng: np.random.Generator, count: int) -> list[str]:
    lengths = rng.integers(1, 8, count).tolist()
    return ["".join(ALPHABET[at] for at in rng.integers(0, len(ALPHABET), length)) for length in lengths]


@pytest.mark.parametrize("spread", [int(runs_module._SPREAD), 0], ids=["spread", "all-in-one-bucket"])
@pytest.mark.parametrize("longest", [3, 4, 6])
def test_runs_are_found_as_cutting_finds_them(longest: int, spread: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "_SPREAD", np.uint64(spread))
    rng = np.random.default_rng(longest)
    some = parted(drawn(rng, 60))
    terms = {some[at : at + length] for length in range(3, longest + 1) for at in rng.integers(0, len(some) - 6, 80)}
    listed = sorted(term for term in terms if "  " not in term)
    index = RunIndex(listed, longest)
    words = drawn(rng, 60)
    found = index.find(parted(words))
    assert sorted(zip(found.places.tolist(), found.terms.tolist(), strict=True)) == cut(words, listed, longest)
    assert len(found.terms) > 10


def test_terms_that_are_no_runs_and_texts_without_words_find_nothing() -> None:
    index = RunIndex(["ab", " ab ", "abcdefgh", "", "abc"], 4)
    assert index.find(parted(["abcdefgh"])).terms.tolist() == [4]
    assert index.find(parted(["ab"])).terms.tolist() == [1]
    for text in (parted([]), "", "a"):
        assert index.find(text).terms.tolist() == []
    assert RunIndex([], 4).find(parted(["abcd"])).terms.tolist() == []
