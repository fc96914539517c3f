"""Finds rows by their keys; apart from `service.ingest.keys` because it takes Arrow, without which the API starts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from service.ingest.keys import exact_keys
from service.ingest.limits import MAX_EXACT_INTEGER
from solver.reading import Reading

_WHOLE_NUMBER = re.compile("0|-?[1-9][0-9]{0,15}")
"""As `key_texts` writes one: 01 is another key than 1."""


class KeyLookup:
    """Finds rows by their keys in a column that is read piece by piece, at little more than the cost of reading it.

    Parameters
    ----------
    name : str
        Of the column.
    reading : Reading or None
    keys : collection of str
        Those that are wanted, as `key_texts` gives them.
    """

    def __init__(self, name: str, reading: Reading | None, keys: Collection[str]) -> None:
        self._name = name
        self._reading = reading
        self._texts = pa.array(keys, pa.string())
        whole = (int(key) for key in keys if _WHOLE_NUMBER.fullmatch(key))
        self._numbers = np.array([float(number) for number in whole if abs(number) <= MAX_EXACT_INTEGER])

    def rows(self, values: pa.ChunkedArray) -> Iterator[tuple[int, str]]:
        """Yield the place in this piece of each row that has one of the keys, with that key.

        Raises
        ------
        InexactKeyError
            As `key_texts`.
        """
        if pa.types.is_floating(values.type):
            numbers = exact_keys(self._name, np.asarray(values.to_numpy(), dtype=np.float64), self._reading)
            places = np.flatnonzero(np.isin(numbers, self._numbers))
            yield from zip(places.tolist(), (str(int(number)) for number in numbers[places].tolist()), strict=True)
            return
        places = np.flatnonzero(pc.is_in(values, value_set=self._texts).to_numpy())
        yield from zip(places.tolist(), values.take(pa.array(places)).to_pylist(), strict=True)
