"""Categories → one 0/1 feature a level."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from solver.features.columns import FeatureCounts
from solver.features.errors import StateError
from solver.features.strings import pack_strings, unpack_strings
from solver.reading import BLANKS, LARGEST_EXACT, number_text

_NO_LEVEL: Final = -1
_BOOLEAN: Final = ("true", "false")
_TRUE: Final = ("true", "yes", "y", "t", "1")
_FALSE: Final = ("false", "no", "n", "f", "0")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?").fullmatch


class CategoryColumns:
    """The fitted category columns, and how to apply them.

    An unseen category sets no level. A level `TRUE` is also met by `true` and `True` (and so for false): JSON and
    CSV files write booleans differently. Where a column has no other levels than one for yes and one for no, in
    whatever spelling, each is met by all spellings: `true`, `1`, `yes`. Where all levels are numbers, each is met
    by whatever is the same number: `1.0` for `1`.

    Parameters
    ----------
    names : list of str
        The columns.
    levels : list of list of str
        Of each column.
    missing_level : uint8 array
        Whether "missing" is one more level of a column.
    fill : int64 array
        Which level a missing value counts as, -1 for none.

    Attributes
    ----------
    width : int
        Number of features.
    unclear : dict of str to frozenset of str
        By column, the numbers in their shortest form that are several of its levels, such as `1` and `1.0`.
    """

    def __init__(
        self,
        names: list[str],
        levels: list[list[str]],
        missing_level: NDArray[np.uint8],
        fill: NDArray[np.int64],
    ) -> None:
        self.names, self._levels, self._missing_level, self._fill = names, levels, missing_level, fill
        self._index: list[dict[str | None, int]] = []
        self._numbers: list[dict[float, int]] = []
        self.unclear: dict[str, frozenset[str]] = {}
        self.width = 0
        for name, own, has_missing, filled in zip(names, levels, missing_level.tolist(), fill.tolist(), strict=True):
            index: dict[str | None, int] = {level: self.width + i for i, level in enumerate(own)}
            spellings = Spellings(own)
            index |= {spelling: index[level] for spelling, level in spellings.others.items()}
            if spellings.unclear:
                self.unclear[name] = spellings.unclear
            self._numbers.append({number: index[level] for number, level in spellings.by_number.items()})
            if has_missing:
                index[None] = self.width + len(own)
            elif filled != _NO_LEVEL:
                index[None] = self.width + filled
            self._index.append(index)
            self.width += len(own) + has_missing

    @classmethod
    def fit(
        cls, columns: Mapping[str, Sequence[str | None]], indicate: bool, impute: bool, warnings: list[str]
    ) -> Self:
        """Learn the levels of columns, in sorted order; a column of one value is left out with a warning.

        Parameters
        ----------
        columns : mapping of str to sequence of str or None
        indicate : bool
            Whether "missing" becomes a level where it occurs.
        impute : bool
            Whether a missing value counts as the most frequent level.
        warnings : list of str
        """
        names, levels, missing_level, fill = [], [], [], []
        for name, values in columns.items():
            found = Counter(values)
            has_missing = indicate and None in found
            if len(found) - (None in found and not indicate) < 2:
                warnings.append(f"column {name!r} is left out: it has the same value in all training rows")
                continue
            own = sorted(level for level in found if level is not None)
            most = max(range(len(own)), key=lambda i: found[own[i]], default=_NO_LEVEL) if impute else _NO_LEVEL
            names.append(name)
            levels.append(own)
            missing_level.append(has_missing)
            fill.append(most)
        return cls(names, levels, np.array(missing_level, dtype=np.uint8), np.array(fill, dtype=np.int64))

    @property
    def features_by_level(self) -> list[tuple[str, dict[str | None, int]]]:
        """Each column with the feature that a value of it sets; None stands for a missing one."""
        return list(zip(self.names, self._index, strict=True))

    @property
    def numbers(self) -> list[dict[float, int]]:
        """Of each column, the numbers that its levels are, if they all are some, with the feature that each sets."""
        return self._numbers

    @property
    def feature_names(self) -> list[str]:
        """Readable names, such as `job=clerk` and `job is missing`."""
        made = []
        for name, own, has_missing in zip(self.names, self._levels, self._missing_level, strict=True):
            made += [f"{name}={level}" for level in own] + ([f"{name} is missing"] if has_missing else [])
        return made

    @property
    def feature_columns(self) -> list[str]:
        """The column that each feature is of."""
        has_missing = self._missing_level.tolist()  # as eight bits of NumPy they would refuse 256 levels
        lengths = (len(own) + extra for own, extra in zip(self._levels, has_missing, strict=True))
        return [name for name, length in zip(self.names, lengths, strict=True) for _ in range(length)]

    def codes(self, columns: Sequence[Sequence[str | None]], counts: FeatureCounts) -> list[NDArray[np.int64]]:
        """Per column: which feature each row sets, -1 for none; unseen categories are counted."""
        codes = []
        for name, index, by_number, values in zip(self.names, self._index, self._numbers, columns, strict=True):
            column = np.fromiter(map(index.get, values, repeat(_NO_LEVEL)), np.int64, len(values))
            if by_number and (column == _NO_LEVEL).any():
                for row in np.flatnonzero(column == _NO_LEVEL).tolist():
                    column[row] = by_number.get(_as_number(values[row]), _NO_LEVEL)
            unseen = int(np.count_nonzero(column == _NO_LEVEL))
            if unseen:
                counts.unseen[name] = unseen
            codes.append(column)
        return codes

    def state(self) -> dict[str, NDArray[Any]]:
        """What was fitted, as arrays; `from_state` takes them."""
        category_text, category_ends = pack_strings(self.names)
        level_text, level_ends = pack_strings([level for own in self._levels for level in own])
        return {
            "category_text": category_text,
            "category_ends": category_ends,
            "level_text": level_text,
            "level_ends": level_ends,
            "level_counts": np.array([len(own) for own in self._levels], dtype=np.int64),
            "missing_level": self._missing_level,
            "level_fill": self._fill,
        }

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild from `state`, believing nothing; without `level_fill` no level stands for missing values.

        Raises
        ------
        StateError
            If the parts contradict each other.
        """
        names = unpack_strings(arrays["category_text"], arrays["category_ends"])
        all_levels = unpack_strings(arrays["level_text"], arrays["level_ends"])
        counts = arrays["level_counts"].tolist()
        missing_level = arrays["missing_level"]
        fill = arrays.get("level_fill", np.full(len(names), _NO_LEVEL, dtype=np.int64))
        if len(counts) != len(names) or len(missing_level) != len(names) or len(fill) != len(names):
            raise StateError("table features: categories need one level count, missing flag and filling level each")
        if any(count < 0 for count in counts) or sum(counts) != len(all_levels):
            raise StateError("table features: the level counts do not add up to the levels")
        if (missing_level > 1).any():
            raise StateError("table features: flags must be 0 or 1")
        if (fill < _NO_LEVEL).any() or (fill >= arrays["level_counts"]).any():
            raise StateError("table features: the level that stands for missing values is not there")
        levels = []
        start = 0
        for count in counts:
            levels.append(all_levels[start : start + count])
            start += count
            if len(set(levels[-1])) != count:
                raise StateError("table features: a level is listed twice")
        return cls(names, levels, missing_level, fill)


class Spellings:
    """Which texts mean one of the levels of a column beside the levels themselves; see `CategoryColumns`.

    Parameters
    ----------
    levels : list of str
        Different ones.

    Attributes
    ----------
    others : dict of str to str
        Texts that are no level, and what they mean.
    by_number : dict of float to str
        If all levels are numbers, those that no other level equals.
    unclear : frozenset of str
        Numbers in their shortest form that are several levels.
    """

    def __init__(self, levels: Sequence[str]) -> None:
        self.others: dict[str, str] = {}
        for level in levels:
            if level.lower() in _BOOLEAN:
                self._add(level.lower(), level)
        for spellings, level in _booleans(levels):
            for spelling in spellings:
                self._add(spelling, level)
        self.by_number, self.unclear = _levels_by_number(levels)
        for number, level in self.by_number.items():
            self.others.setdefault(number_text(number), level)
        for level in levels:
            self.others.pop(level, None)

    def _add(self, word: str, level: str) -> None:
        for spelling in (word, word.upper(), word.title()):
            self.others.setdefault(spelling, level)

    def level_of(self, text: str) -> str:
        """Return the level that a text means; the text itself if it is one, or means none."""
        return self.others.get(text) or self.by_number.get(_as_number(text), text)


def _booleans(levels: Sequence[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """All words for the levels of a column that has just one for yes and one for no; nothing for others."""
    if len(levels) != 2:
        return
    for true, false in (levels, levels[::-1]):
        if (true.lower(), false.lower()) in zip(_TRUE, _FALSE, strict=True):
            yield _TRUE, true
            yield _FALSE, false


def _levels_by_number(levels: Sequence[str]) -> tuple[dict[float, str], frozenset[str]]:
    """Levels by the number that each is, and numbers that several are; nothing unless all levels are numbers."""
    found: dict[float, list[str]] = {}
    for level in levels:
        number = _as_number(level)
        if math.isnan(number) or abs(number) >= LARGEST_EXACT:  # identifiers, of which digits would be lost
            return {}, frozenset()
        found.setdefault(number, []).append(level)
    clear = {number: same[0] for number, same in found.items() if len(same) == 1}
    return clear, frozenset(number_text(number) for number, same in found.items() if len(same) > 1)


def _as_number(text: str | None) -> float:
    bare = "" if text is None else text.strip(BLANKS)
    return float(bare) + 0.0 if _NUMBER(bare) else math.nan
