"""Categories → one 0/1 feature a level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from solver.features.columns import FeatureCounts
from solver.features.errors import StateError
from solver.features.strings import pack_strings, unpack_strings

_NO_LEVEL: Final = -1
_BOOLEAN: Final = ("true", "false")


class CategoryColumns:
    """The fitted category columns, and how to apply them.

    An unseen category sets no level. A level ``TRUE`` is also met by ``true`` and ``True`` (and so for false): JSON and
    CSV files write booleans differently.

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
        self.width = 0
        for own, has_missing, filled in zip(levels, missing_level.tolist(), fill.tolist(), strict=True):
            index: dict[str | None, int] = {level: self.width + i for i, level in enumerate(own)}
            for level in own:
                if level.lower() in _BOOLEAN:
                    for spelling in (level.lower(), level.upper(), level.title()):
                        index.setdefault(spelling, index[level])
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
    def levels(self) -> list[tuple[str, dict[str | None, int]]]:
        """Each column with the feature that a value of it sets; None stands for a missing one."""
        return list(zip(self.names, self._index, strict=True))

    @property
    def feature_names(self) -> list[str]:
        """Readable names, such as ``job=clerk`` and ``job is missing``."""
        made = []
        for name, own, has_missing in zip(self.names, self._levels, self._missing_level, strict=True):
            made += [f"{name}={level}" for level in own] + ([f"{name} is missing"] if has_missing else [])
        return made

    def codes(self, columns: Sequence[Sequence[str | None]], counts: FeatureCounts) -> list[NDArray[np.int64]]:
        """Per column: which feature each row sets, -1 for none; unseen categories are counted."""
        codes = []
        for name, index, values in zip(self.names, self._index, columns, strict=True):
            column = np.fromiter(map(index.get, values, repeat(_NO_LEVEL)), np.int64, len(values))
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
        """Rebuild from `state`, believing nothing; without ``level_fill`` no level stands for missing values.

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
