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
        codes = codes.astype(np.uint64)
        keys = _keys_of_three([codes[at : at + count] for at in range(SHORTEST_CHARACTERS)])
        places = np.arange(count)
        terms, begins = [], []
        for length, level in enumerate(self._levels, SHORTEST_CHARACTERS):
            at, nodes = level.find(keys)
            places = places.take(at)
            numbers = level.numbers.take(nodes)
            are_terms = np.flatnonzero(numbers >= 0)
            terms.append(numbers.take(are_terms))
            begins.append(places.take(are_terms))
            if length - SHORTEST_CHARACTERS + 1 == len(self._levels):
                break
            goes_on = int(np.searchsorted(places, len(codes) - length))  # a run there has a character behind it
            places = places[:goes_on]
            keys = _longer(nodes[:goes_on], codes.take(places + length))
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
        ends = np.cumsum(sizes)
        self._first = np.where(sizes > 0, ends - sizes, -1).astype(np.int32)  # of each bucket, -1 of an empty one
        self._last = np.repeat(ends - 1, sizes).astype(np.int32)  # of the bucket of each key
        self._rounds = max(0, int(sizes.max()) - 1).bit_length()
        self.numbers = numbers
        self.nbytes = sum(each.nbytes for each in (self._keys, self._nodes, self._first, self._last, numbers))

    def find(self, keys: Keys) -> tuple[IndexArray, NDArray[np.int32]]:
        """Return which of some keys are known, and the node of each of these."""
        found = self._first.take(self._buckets(keys))
        at = np.flatnonzero(found >= 0)
        keys, found = keys.take(at), found.take(at)
        is_known = self._keys.take(found) == keys
        others = np.flatnonzero(~is_known)  # few: most buckets have one key
        others = others[self._last.take(found.take(others)) > found.take(others)]
        if len(others):
            found[others] = among = self._among_several(keys.take(others), found.take(others))
            is_known[others] = self._keys.take(among) == keys.take(others)
        known = np.flatnonzero(is_known)  # taking by numbers is quicker than by booleans
        return at.take(known), self._nodes.take(found.take(known))

    def _among_several(self, keys: Keys, low: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the last place in each bucket, of which `low` is the first, whose key is not above one."""
        high = self._last.take(low)
        for _ in range(self._rounds):
            middle = (low + high + 1) >> 1
            is_above = self._keys.take(middle) > keys
            low, high = np.where(is_above, low, middle), np.where(is_above, middle - 1, high)
        return low

    def _buckets(self, keys: Keys) -> IndexArray:
        buckets: IndexArray = ((keys * _SPREAD) >> self._shift).view(np.int64)
        return buckets


def parted(words: Sequence[str]) -> str:
    """Return words as `RunIndex.find` takes them."""
    return f" {'  '.join(words)} "


def _codes(text: str) -> NDArray[Any]:
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def _keys_of_three(codes: Any) -> Keys:
    first, second, third = (each.astype(np.uint64, copy=False) for each in codes)
    keys: Keys = (first << _BITS | second) << _BITS | third
    return keys


def _longer(nodes: NDArray[Any], codes: NDArray[Any]) -> Keys:
    keys: Keys = nodes.astype(np.uint64) << _BITS | codes.astype(np.uint64, copy=False)
    return keys
