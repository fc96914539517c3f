"""Words for missing values: those that everybody uses (``NA``, ``?``), and those that the option `missing` names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from string import ascii_letters

import pyarrow as pa
import pyarrow.compute as pc

from service.ingest import lean_arrow  # noqa: F401  # before any array
from service.ingest.limits import MAX_MISSING_SPELLINGS
from service.ingest.mixed import MIXED, is_mixed
from solver.labels import MISSING_WORDS, is_missing_word
from solver.reading import BLANKS, Reading

_WORDS = pa.array(sorted(MISSING_WORDS), pa.string())
_NOTHING = pa.scalar(None, pa.string())
_LETTERS = frozenset(ascii_letters)
FIRST_TEXTS = 10


def are_words(texts: pa.StringArray) -> pa.BooleanArray:
    """Tell for each text whether it is such a word; not where it is missing."""
    return pc.is_in(pc.utf8_lower(pc.utf8_trim(texts, BLANKS)), value_set=_WORDS)


def begins_with_another_word(texts: pa.StringArray) -> bool:
    """Tell whether the first text begins with a letter, and is no such word: then it is no plain number either."""
    first = next((text for text in texts[:FIRST_TEXTS].to_pylist() if text), "").strip(BLANKS)
    return first[:1] in _LETTERS and not is_missing_word(first)


class NamedMissing:
    """Takes out of arrays what the option `missing` says is missing.

    Parameters
    ----------
    reading : Reading
        What the options of the upload say.
    """

    def __init__(self, reading: Reading) -> None:
        self._texts = pa.array(reading.missing, pa.string()) if reading.missing else None
        self._numbers = pa.array(reading.missing_numbers, pa.float64()) if reading.missing_numbers else None

    def out_of_texts(self, texts: pa.StringArray) -> pa.StringArray:
        """Return texts, null where they are one of the words."""
        return texts if self._texts is None else pc.if_else(pc.is_in(texts, value_set=self._texts), None, texts)

    def out_of_numbers(self, numbers: pa.DoubleArray) -> pa.DoubleArray:
        """Return numbers, null where their shortest form is one of the words."""
        return (
            numbers if self._numbers is None else pc.if_else(pc.is_in(numbers, value_set=self._numbers), None, numbers)
        )

    def out_of(self, array: pa.Array) -> pa.Array:
        """Return an array of texts, numbers or both; one of vectors, in which nothing is missing, as it is."""
        if self._texts is None or pa.types.is_fixed_size_binary(array.type):
            return array
        if is_mixed(array):
            texts, numbers = self.out_of_texts(array.field("text")), self.out_of_numbers(array.field("number"))
            return pa.StructArray.from_arrays([texts, numbers], fields=[*MIXED])
        return (self.out_of_texts if pa.types.is_string(array.type) else self.out_of_numbers)(array)


class MissingWords:
    """Counts words that everybody uses by the position of their column, in one pass over a file."""

    def __init__(self) -> None:
        self._counts: dict[int, Counter[str]] = {}

    def begin(self) -> None:
        """Forget what an earlier pass has counted."""
        self._counts.clear()

    def of(self, position: int) -> dict[str, int]:
        """Return the words of a column as they are spelt, without blanks around them, the most frequent ones first."""
        counts = self._counts.get(position)
        return {} if counts is None else dict(counts.most_common(MAX_MISSING_SPELLINGS))

    def is_one(self, position: int, text: str) -> bool:
        """Tell whether a text is such a word, and count it."""
        if not is_missing_word(text):
            return False
        self._counts.setdefault(position, Counter())[text.strip(BLANKS)] += 1
        return True

    def numbers(
        self, position: int, texts: pa.StringArray, convert: Callable[[pa.StringArray], pa.DoubleArray | None]
    ) -> pa.DoubleArray | None:
        """Return the numbers that texts are without such words, which count as missing.

        Parameters
        ----------
        position : int
        texts : string array
        convert : callable
            Gives numbers for texts, or None if one of them is something else.

        Returns
        -------
        float64 array or None
            None if there are no such words, or something else is no number.
        """
        words = are_words(texts)
        if not pc.any(words).as_py():
            return None
        numbers = convert(pc.if_else(words, _NOTHING, texts))
        if numbers is not None:
            found = pc.value_counts(pc.utf8_trim(texts.filter(words), BLANKS))
            counts = self._counts.setdefault(position, Counter())
            for word, count in zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True):
                counts[word] += count
        return numbers
