"""Which columns number or name the rows instead of measuring something: an index, a counter, an id, a key.

Where a file is sorted, such a column tells every label, and nothing of a row that comes later. So a training leaves it
out unless somebody asks for it. Measurements may all differ, too: numbers with decimals, prices, times. What parts them
from ids is that ids differ although there is hardly room for so many different ones, or that they rise from row to row.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from service.ingest.limits import MAX_DISTINCT
from service.ingest.numbers import array_values

IndexKind = Literal["pandas", "unnamed"]
"""How a file shows that a column is an index: the metadata of pandas say so, or it comes first and has no name."""

FEWEST_ROWS: Final = 20
MOST_NUMBERS: Final = 10_000_000
MOST_TEXTS: Final = 1_000_000
"""Values that are looked at, the first ones."""
EXPECTED_TIES: Final = 12.0
"""Numbers drawn from their range would tie so often, on average. None does then with a probability of 6e-6."""
NAMED_SHARE: Final = 0.9
"""Of the values of a column that is called an id, so many have to differ."""
MOST_MISSING: Final = 0.1
INDEX_SHARE: Final = 0.1
"""Of the values of an index; it begins anew where files were put one behind the other."""
FEW_SHARE: Final = 0.02
FEWEST_TOLERATED: Final = 1
"""Rows, at least, that may be missing, equal to another one, or out of order in a column that numbers the rows."""
TIES_A_TIE: Final = 4
"""For each tie that there is, so many more have to be expected."""

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_LAST_WORDS: Final = frozenset(
    (
        *("id", "ids", "uid", "pid", "uuid", "guid", "identifier", "key", "pk", "rowid"),
        *("no", "nr", "serial", "mrn", "ssn", "isbn"),
    )
)
"""Names of ids end with one of them."""
_MAYBE_LAST_WORDS: Final = frozenset(("num", "number", "index", "idx"))
"""So do names of counts and measures (platelet number, price index), unless what stands before is numbered."""
_NUMBERED: Final = frozenset(
    (
        *("account", "application", "bank", "batch", "bill", "booking", "card", "case", "chart", "claim", "client"),
        *("contract", "customer", "document", "employee", "entry", "fax", "file", "hospital", "id", "invoice", "item"),
        *(
            "line",
            "lot",
            "member",
            "mobile",
            "mrn",
            "observation",
            "order",
            "part",
            "participant",
            "passport",
            "patient",
        ),
        *("permit", "person", "phone", "plate", "policy", "product", "record", "ref", "reference", "registration"),
        *("request", "row", "sample", "seq", "sequence", "serial", "social", "security", "student", "study", "subject"),
        *("tax", "telephone", "ticket", "tracking", "transaction", "user", "vehicle", "visit"),
    )
)
_INDEX_NAME: Final = re.compile(r"__index_level_[0-9]+__|unnamed: [0-9]+|index|level_[0-9]+|row_?names?", re.IGNORECASE)
_SINGLE_WORD: Final = r"^[A-Za-z0-9_#-]+$"
_SINGLE_WORD_AT_FIRST: Final = re.compile(r"[A-Za-z0-9_#-]+").fullmatch
_WITH_UNIT: Final = "^-?[0-9]+(?:[.,][0-9]+)? ?[A-Za-zµμ°]{1,8}$"
"""A number and its unit: 324mg."""
MOST_UNITS: Final = 5
_PANDAS: Final = "is the index of a pandas table"
_SECONDS: Final = (631_152_000, 2_524_608_000)
"""1990 to 2050."""


def identifier(name: str, values: pa.Array, index: IndexKind | None = None) -> str | None:
    """Say why a column is taken for an index or an id; None if it is taken for something that measures.

    Parameters
    ----------
    name : str
    values : float64 or string array of shape (rows,)
        Null (or NaN) where missing. Of more than ten million numbers or a million texts the first ones are looked at.
    index : {"pandas", "unnamed"}, optional
        What the file says of it.

    Returns
    -------
    str or None
        The end of a sentence about the column, such as "counts the rows".
    """
    if index == "pandas":
        return _PANDAS
    index_like = _is_index(name, index)
    if pa.types.is_string(values.type):
        return _text_identifier(name, values[:MOST_TEXTS].drop_null(), index_like)
    values = values[:MOST_NUMBERS]
    present = array_values(values.drop_null(), np.float64)
    present = present[np.isfinite(present)]
    if len(present) < max(FEWEST_ROWS, (1 - MOST_MISSING) * len(values)) or (present != np.floor(present)).any():
        return None
    return _number_identifier(name, present, index_like, len(values) - len(present))


class IdentifierSample:
    """Keeps the values of a column while its batches pass by, as long as it may be an identifier.

    Parameters
    ----------
    name : str
    index : {"pandas", "unnamed"}, optional
        As for `identifier`.
    """

    def __init__(self, name: str, index: IndexKind | None) -> None:
        self._name = name
        self._index = index
        self._share = INDEX_SHARE if _is_index(name, index) else NAMED_SHARE if _is_called_id(name) else 1.0
        self._parts: list[pa.Array] | None = []
        self._rows = 0

    def add(self, array: pa.Array, distinct: int) -> None:
        """Take a batch of float64 or string into account; `distinct` of all values until now differ, as far as known.

        Nearly every column that measures something shows it in its first rows, and costs nothing after that.
        """
        if self._parts is None:
            return
        room = (MOST_TEXTS if pa.types.is_string(array.type) else MOST_NUMBERS) - self._rows
        if room <= 0:
            return
        part = array[:room]
        self._rows += len(part)
        if self._may_go_on(part, distinct):
            self._parts.append(part)
        else:
            self._parts = None

    def add_fractions(self, rows: int) -> None:
        """Take a batch of so many numbers into account of which one of the first `FEWEST_ROWS` is not whole."""
        if self._parts is not None and self._rows < MOST_NUMBERS:
            self._rows += min(rows, MOST_NUMBERS - self._rows)
            self._parts = None

    def _may_go_on(self, part: pa.Array, distinct: int) -> bool:
        first = part[:FEWEST_ROWS].drop_null()
        if not len(first):
            return False
        is_text = pa.types.is_string(part.type)
        if is_text:
            if not all(map(_SINGLE_WORD_AT_FIRST, first.to_pylist())):
                return False
        elif ((numbers := array_values(first, np.float64)) != np.floor(numbers)).any():
            return False
        if self._parts and self._parts[0].type != part.type:
            return False
        if distinct < MAX_DISTINCT:
            return distinct >= self._share * (self._rows - MOST_MISSING * self._rows) or self._rows < FEWEST_ROWS
        if not is_text and part.null_count == 0:
            numbers = array_values(part, np.float64)
            if (numbers[1:] > numbers[:-1]).all():
                return True
        return len(pc.unique(part)) >= self._share * (1 - MOST_MISSING) * len(part)

    def reason(self) -> str | None:
        """Say why the column is taken for an identifier, see `identifier`."""
        if not self._parts:
            return _PANDAS if self._index == "pandas" else None
        return identifier(self._name, pa.concat_arrays(self._parts), self._index)


def _is_index(name: str, index: IndexKind | None) -> bool:
    return index == "unnamed" or _INDEX_NAME.fullmatch(name) is not None


def _number_identifier(name: str, numbers: NDArray[np.float64], index_like: bool, missing: int) -> str | None:
    n = len(numbers)
    few = _few(n)
    steps = np.diff(numbers)
    if not missing and numbers[0] in (0, 1) and (steps == 1).all():
        return "counts the rows"
    falls = int(np.count_nonzero(steps <= 0))
    distinct = n if not falls else len(np.unique(numbers))
    ties = n - distinct
    if index_like and distinct >= max(INDEX_SHARE * n, FEWEST_ROWS):
        return "has the name, and whole numbers, of an index of the rows"
    if _is_called_id(name) and distinct >= NAMED_SHARE * n:
        return "has the name of an id, and whole numbers that nearly all differ"
    if max(ties, missing) > few or _is_time(numbers):
        return None
    if falls <= few:
        rise = "rise" if not falls and not missing else "nearly all rise"
        return f"holds whole numbers that {rise} from row to row, as a counter or key does"
    room = float(numbers.max() - numbers.min()) + 1
    if n * (n - 1) / (2 * room) >= EXPECTED_TIES + TIES_A_TIE * ties:
        differ = "nearly all differ" if ties else "all differ"
        return f"holds whole numbers that {differ}, although hardly more would fit between the least and the greatest"
    return None


def _few(n: int) -> int:
    """Return how many of so many rows may be unlike those of a counter, whatever it is that somebody did to them."""
    return max(FEWEST_TOLERATED, int(FEW_SHARE * n))


def _text_identifier(name: str, texts: pa.StringArray, index_like: bool) -> str | None:
    n = len(texts)
    if n < FEWEST_ROWS:
        return None
    distinct = len(pc.unique(texts))
    if index_like and distinct >= NAMED_SHARE * n:
        return "has the name, and texts that nearly all differ, of an index of the rows"
    single = pc.all(pc.match_substring_regex(texts, _SINGLE_WORD)).as_py()
    if not single:
        return None
    if _is_called_id(name) and distinct >= NAMED_SHARE * n:
        return "has the name of an id, and single words that nearly all differ"
    if n - distinct > _few(n) or pc.mean(pc.match_substring_regex(texts, "[0-9]")).as_py() < NAMED_SHARE:
        return None
    if units_of(texts):
        return None
    return f"holds single words with digits that {'all' if distinct == n else 'nearly all'} differ, as keys do"


def units_of(texts: pa.StringArray) -> list[str]:
    """Return the units of texts that all are numbers with a unit, of which there are few; none if they are not.

    Parameters
    ----------
    texts : string array
        Without missing ones.
    """
    if len(texts) == 0 or not pc.all(pc.match_substring_regex(texts, _WITH_UNIT)).as_py():
        return []
    units = pc.unique(pc.replace_substring_regex(texts, "^[-0-9., ]+", ""))
    return sorted(units.to_pylist()) if len(units) <= MOST_UNITS else []


def _is_called_id(name: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[-1] not in _MAYBE_LAST_WORDS:
        return bool(words) and words[-1] in _LAST_WORDS
    return len(words) == 1 or words[-2] in _NUMBERED


def _is_time(numbers: NDArray[np.float64]) -> bool:
    """Whether whole numbers are years, days such as 20261128, or seconds or milliseconds since 1970."""
    least, greatest = numbers.min(), numbers.max()
    if least >= 1500 and greatest <= 2200:
        return True
    if least >= 18_000_101 and greatest <= 22_001_231:
        months, days = numbers // 100 % 100, numbers % 100
        return bool(((months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)).all())
    for unit in (1, 1_000, 1_000_000):
        if _SECONDS[0] * unit <= least and greatest <= _SECONDS[1] * unit:
            # Whoever counts from a number of such a size does not leave out four of five.
            return bool(greatest - least + 1 > 5 * len(numbers))
    return False
