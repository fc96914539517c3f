"""Runs of characters within words, looked up all at once: which terms of a vocabulary stand where in a text.

To cut a text into its runs and to ask a dictionary for each takes a microsecond a run; a long mail has ten thousands.
Here a run of three characters is one number, 21 bits a character, and a longer one the number of the run that is a
character shorter, followed by its last character. So all runs of one length are found by a few operations on arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.typing import IndexArray

SHORTEST_CHARACTERS: Final = 3
# bits of a code point
_BITS: Final = np.uint64(21)
# 2^64 divided by the golden ratio: the upper bits of a product with it differ for keys that are near each other
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_BLANK: Final = ord(" ")

Keys = NDArray[np.uint64]


class _Found(NamedTuple):
    """Terms and where they begin in a text, in no order."""

    terms: IndexArray
    places: IndexArray


class RunIndex:
    """The terms of a vocabulary that are runs of 3 to `longest` characters.

    Parameters
    ----------
    terms : sequence of str
        Those of other lengths are never found.
    longest : int

    Attributes
    ----------
    nbytes : int
    """

    def __init__(self, terms: Sequence[str], longest: int) -> None:
        lengths = np.fromiter(map(len, terms), dtype=np.int64, count=len(terms))
        codes = _codes("".join(terms))
        begins = np.cumsum(lengths) - lengths
        known = np.flatnonzero((lengths >= SHORTEST_CHARACTERS) & (lengths <= longest))
        self._levels: list[_Level] = []
        keys = _keys_of_three(codes[begins[known, None] + np.arange(SHORTEST_CHARACTERS)].T)
        for length in range(SHORTEST_CHARACTERS, longest + 1):
            different, nodes = np.unique(keys, return_inverse=True)
            numbers = np.full(len(different), -1, dtype=np.int64)
            ends_here = lengths[known] == length
            numbers[nodes[ends_here]] = known[ends_here]
            self._levels.append(_Level(different, numbers))
            known, nodes = known[~ends_here], nodes[~ends_here]
            if not len(known):
                break
            keys = _longer(nodes, codes[begins[known] + length])
        self.nbytes = sum(level.nbytes for level in self._levels)

    def find(self, text: str) -> _Found:
        """Return the terms in the words of a text, which two blanks part and one begins and ends."""
        codes = _codes(text)
        count = len(codes) - SHORTEST_CHARACTERS + 1
        if count < 1:
            return _Found(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        keys = _keys_of_three([codes[at : at + count] for at in range(SHORTEST_CHARACTERS)])
        places = np.arange(count)
        terms, begins = [], []
        for length, level in enumerate(self._levels, SHORTEST_CHARACTERS):
            at, nodes = level.find(keys)
            places = places[at]
            numbers = level.numbers[nodes]
            is_term = numbers >= 0
            terms.append(numbers[is_term])
            begins.append(places[is_term])
            goes_on = places + length < len(codes)
            places = places[goes_on]
            keys = _longer(nodes[goes_on], codes[places + length])
        return _Found(np.concatenate(terms), np.concatenate(begins))


class _Level:
    """The runs of one length that terms begin with: their keys, in buckets, each sorted."""

    def __init__(self, keys: Keys, numbers: IndexArray) -> None:
        self._shift = np.uint64(62 - max(1, len(keys)).bit_length())  # four to eight buckets a key
        buckets = self._buckets(keys)
        order = np.lexsort((keys, buckets))
        self._keys = keys[order]
        self._nodes = order.astype(np.int32)
        sizes = np.bincount(buckets, minlength=1 << (64 - int(self._shift)))
        self._ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        self._rounds = max(0, int(sizes.max()) - 1).bit_length()
        self.numbers = numbers
        self.nbytes = sum(each.nbytes for each in (self._keys, self._nodes, self._ends, numbers))

    def find(self, keys: Keys) -> tuple[IndexArray, IndexArray]:
        """Return which of some keys are known, and the node of each of these."""
        buckets = self._buckets(keys)
        low, high = self._ends[buckets], self._ends[buckets + 1]
        at = np.flatnonzero(low < high)
        keys, low, high = keys[at], low[at], high[at] - 1
        several = np.flatnonzero((low < high) & (self._keys[low] != keys))
        low[several] = self._among_several(keys[several], low[several], high[several])
        is_known = self._keys[low] == keys
        return at[is_known], self._nodes[low[is_known]]

    def _among_several(self, keys: Keys, low: NDArray[np.int32], high: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the last place in each bucket whose key is not above the one that is looked for."""
        for _ in range(self._rounds):
            middle = (low + high + 1) >> 1
            is_above = self._keys[middle] > keys
            low, high = np.where(is_above, low, middle), np.where(is_above, middle - 1, high)
        return low

    def _buckets(self, keys: Keys) -> NDArray[Any]:
        return ((keys * _SPREAD) >> self._shift).astype(np.int64)


def parted(words: Sequence[str]) -> str:
    """Return words as `RunIndex.find` takes them."""
    return f" {'  '.join(words)} "


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def _keys_of_three(codes: Any) -> Keys:
    first, second, third = (each.astype(np.uint64) for each in codes)
    keys: Keys = (first << _BITS | second) << _BITS | third
    return keys


def _longer(nodes: NDArray[Any], codes: NDArray[np.uint32]) -> Keys:
    keys: Keys = nodes.astype(np.uint64) << _BITS | codes.astype(np.uint64)
    return keys
