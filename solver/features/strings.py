"""Lists of text as two plain arrays, so that a model file needs no long JSON."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from solver.features.errors import StateError


def pack_strings(strings: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Put strings one after the other.

    Parameters
    ----------
    strings : sequence of str
        Any text that UTF-8 can hold (no lone surrogates).

    Returns
    -------
    text : ndarray of uint8
        The strings in UTF-8, without anything between them.
    ends : ndarray of int64, shape (len(strings),)
        Where each one ends in `text`, in bytes.
    """
    encoded = [string.encode() for string in strings]
    ends = np.cumsum([len(item) for item in encoded], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), ends


def unpack_strings(text: NDArray[np.uint8], ends: NDArray[np.int64]) -> list[str]:
    """Undo `pack_strings`.

    Raises
    ------
    StateError
        If the ends are not ascending and within the text, or the text is not UTF-8.
    """
    bounds = [0, *ends.tolist()]
    if any(end < start for start, end in itertools.pairwise(bounds)) or bounds[-1] != len(text):
        raise StateError("packed text: the ends of the strings must ascend to the length of the text")
    raw = text.tobytes()
    try:
        return [raw[start:end].decode() for start, end in itertools.pairwise(bounds)]
    except UnicodeDecodeError as error:
        raise StateError("packed text is not UTF-8") from error
