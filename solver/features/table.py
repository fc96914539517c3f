"""Tables of numbers and categories → a feature matrix."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.features.errors import BadValue, FeatureError, MissingColumns, StateError
from solver.features.strings import pack_strings, unpack_strings

ColumnKind = Literal["number", "category"]

MAX_LEVELS = 1000
"""A category column with more different values than this is left out."""
LARGEST_SCORE = 1e6
"""Standardised numbers are cut here (in standard deviations), so that no kernel overflows on a wild value."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name : str
    kind : {"number", "category"}
    values : ndarray, shape (rows,)
        Numbers: float64, NaN where missing (an infinite value counts as missing too).
        Categories: objects, each a str or None where missing.
    """

    name: str
    kind: ColumnKind
    values: NDArray[Any]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of equal length by name."""

    columns: dict[str, Column]

    def __post_init__(self) -> None:
        lengths = {len(column.values) for column in self.columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns of one table differ in length: {sorted(lengths)}")

    @property
    def n_rows(self) -> int:
        """Number of rows; 0 without columns."""
        for column in self.columns.values():
            return len(column.values)
        return 0

    def take(self, rows: NDArray[np.intp]) -> Table:
        """Those rows, in that order, as a table of its own."""
        return Table({c.name: Column(c.name, c.kind, c.values[rows]) for c in self.columns.values()})


@dataclass(frozen=True, slots=True)
class FeatureCounts:
    """What `transform` met that the fitted pipeline had to bridge, by raw column.

    Attributes
    ----------
    missing : dict of str to int
        Rows without a number in a column that had none missing when the pipeline was fitted (the median stands in).
    unseen : dict of str to int
        Rows with a category (or a missing one) that the fitted rows did not have (no level is set).
    extra : int
        Non-zero entries of a matrix beyond its fitted width, or NaN and infinite ones (all ignored).
    """

    missing: dict[str, int] = field(default_factory=dict)
    unseen: dict[str, int] = field(default_factory=dict)
    extra: int = 0

    def warnings(self) -> list[str]:
        """The same as sentences for the user."""
        said = [
            f"column {name!r}: no number in {n} row(s); training had none missing, its median is used"
            for name, n in self.missing.items()
        ]
        said += [
            f"column {name!r}: {n} row(s) hold a category that training never saw" for name, n in self.unseen.items()
        ]
        if self.extra:
            said.append(f"{self.extra} matrix entries are not finite or beyond the trained columns and were ignored")
        return said


class TableFeatures:
    """Fits how columns become features, and applies it.

    Numbers: missing ones become the median, then the column is standardised; a column with missing numbers also gets a
    0/1 feature that says where. Categories: one 0/1 feature a level; "missing" is a level where the fitted rows have
    it, an unseen category sets none. Columns that cannot help are left out, each with a warning: those with one value
    only, and categories that look like identifiers (more than 1000 levels, or more than 10 and more than half of the
    rows).

    Features are ordered: standardised numbers, missing indicators, then the levels of each category column.

    Parameters
    ----------
    include : sequence of str, optional
        The only columns that may become features. Default: all.
    exclude : sequence of str, default ()
        Columns that never become features, whatever `include` says.

    Attributes
    ----------
    columns : list of dict
        ``{"name", "kind"}`` of the raw columns that `transform` needs.
    n_features : int
        Width of the matrix.
    sparse : bool
        Whether `transform` gives CSR instead of a dense matrix: from 512 features on, where less than 5 % are non-zero.
    warnings : list of str
        What `fit` left out, and why.
    """

    kind: Literal["table"] = "table"

    def __init__(self, *, include: Sequence[str] | None = None, exclude: Sequence[str] = ()) -> None:
        self.include = None if include is None else tuple(include)
        self.exclude = tuple(exclude)
        self.warnings: list[str] = []

    # -- fitting ------------------------------------------------------------------------------------------------------

    def fit(self, table: Table) -> Self:
        """Learn medians, means, scales and levels from these rows.

        Raises
        ------
        FeatureError
            If `include` or `exclude` names a column that is not there, or no column is left.
        """
        unknown = [name for name in (*(self.include or ()), *self.exclude) if name not in table.columns]
        if unknown:
            raise FeatureError(f"no such column: {', '.join(repr(name) for name in unknown)}")
        self.warnings = []
        numbers: list[tuple[str, float, float, float, bool]] = []
        categories: list[tuple[str, list[str], bool]] = []
        for name, column in table.columns.items():
            if name in self.exclude or (self.include is not None and name not in self.include):
                continue
            if column.kind == "number":
                fitted = self._fit_number(name, column.values)
                if fitted is not None:
                    numbers.append((name, *fitted))
            else:
                levels = self._fit_category(name, column.values)
                if levels is not None:
                    categories.append((name, *levels))
        if not numbers and not categories:
            raise FeatureError(
                "no column is left as a feature" + (": " + "; ".join(self.warnings) if self.warnings else "")
            )
        values = np.array([row[1:4] for row in numbers], dtype=np.float64).reshape(-1, 3)
        self._set(
            number_names=[row[0] for row in numbers],
            median=values[:, 0].copy(),
            mean=values[:, 1].copy(),
            scale=values[:, 2].copy(),
            indicator=np.array([row[4] for row in numbers], dtype=np.uint8),
            category_names=[row[0] for row in categories],
            levels=[row[1] for row in categories],
            missing_level=np.array([row[2] for row in categories], dtype=np.uint8),
        )
        nonzeros = len(numbers) + len(categories)
        self.sparse = self.n_features >= 512 and nonzeros < 0.05 * self.n_features
        return self

    def _fit_number(self, name: str, values: NDArray[np.float64]) -> tuple[float, float, float, bool] | None:
        """Median, mean, scale (0: only the indicator is a feature) and whether there is an indicator."""
        finite = np.isfinite(values)
        present = values[finite]
        some_missing = len(present) < len(values)
        if len(present) == 0:
            self.warnings.append(f"column {name!r} is left out: it has no number in the training rows")
            return None
        median = float(np.median(present))
        if present.min() == present.max():
            if some_missing:  # where it is missing is all that it tells
                return median, median, 0.0, True
            self.warnings.append(f"column {name!r} is left out: it has the same value in all training rows")
            return None
        filled = np.where(finite, values, median)
        largest = float(np.abs(filled).max())
        filled /= largest  # so that the squares cannot overflow
        scale = float(filled.std()) * largest
        if not scale > 0:  # the values differ by less than float64 can square
            self.warnings.append(f"column {name!r} is left out: its values differ by next to nothing")
            return None
        return median, float(filled.mean()) * largest, scale, some_missing

    def _fit_category(self, name: str, values: NDArray[np.object_]) -> tuple[list[str], bool] | None:
        """Levels in sorted order, and whether "missing" is one more."""
        found: set[str | None] = set(values.tolist())
        some_missing = None in found
        levels = sorted(level for level in found if level is not None)
        if len(found) < 2:
            self.warnings.append(f"column {name!r} is left out: it has the same value in all training rows")
            return None
        if len(levels) > MAX_LEVELS or len(levels) > max(10, len(values) / 2):
            self.warnings.append(
                f"column {name!r} is left out: {len(levels)} different texts in {len(values)} training rows "
                "look like an identifier or free text"
            )
            return None
        return levels, some_missing

    def _set(
        self,
        *,
        number_names: list[str],
        median: NDArray[np.float64],
        mean: NDArray[np.float64],
        scale: NDArray[np.float64],
        indicator: NDArray[np.uint8],
        category_names: list[str],
        levels: list[list[str]],
        missing_level: NDArray[np.uint8],
    ) -> None:
        """Keep the fitted state, and what `transform` needs of it precomputed."""
        self._number_names, self._category_names = number_names, category_names
        self._median, self._mean, self._scale, self._indicator = median, mean, scale, indicator
        self._levels, self._missing_level = levels, missing_level
        self.columns: list[dict[str, str]] = [{"name": name, "kind": "number"} for name in number_names]
        self.columns += [{"name": name, "kind": "category"} for name in category_names]
        valued = scale > 0
        self._valued, self._indicated = np.flatnonzero(valued), np.flatnonzero(indicator)
        self._valued_names = [number_names[j] for j in self._valued]
        self._valued_median, self._valued_mean, self._valued_scale = median[valued], mean[valued], scale[valued]
        self._surprising_if_missing = (indicator == 0)[valued]
        self._indicator_names = [number_names[j] for j in self._indicated]
        self._reader = RowReader(self.columns)
        width = len(self._valued_names) + len(self._indicator_names)
        self._level_index: list[dict[str | None, int]] = []
        for column_levels, has_missing in zip(levels, missing_level, strict=True):
            keys: list[str | None] = [*column_levels, *([None] if has_missing else [])]
            self._level_index.append({level: width + i for i, level in enumerate(keys)})
            width += len(keys)
        self.n_features = width

    @property
    def feature_names(self) -> list[str]:
        """Readable names of the features in order, such as ``age``, ``age is missing``, ``job=clerk``."""
        names = [*self._valued_names, *(f"{name} is missing" for name in self._indicator_names)]
        for name, index in zip(self._category_names, self._level_index, strict=True):
            names += [f"{name} is missing" if level is None else f"{name}={level}" for level in index]
        return names

    # -- applying -----------------------------------------------------------------------------------------------------

    def transform(self, table: Table) -> tuple[NDArray[np.float64] | sparse.csr_array, FeatureCounts]:
        """Turn rows into features.

        Returns
        -------
        X : ndarray of float64 (C order) or csr_array, shape (rows, n_features)
        counts : FeatureCounts

        Raises
        ------
        MissingColumns
            If columns that were fitted are not in `table`. More columns than needed do not matter.
        FeatureError
            If a column is of the other kind.
        """
        for needed in self.columns:
            column = table.columns.get(needed["name"])
            if column is None:
                raise MissingColumns([c["name"] for c in self.columns if c["name"] not in table.columns])
            if column.kind != needed["kind"]:
                raise FeatureError(
                    f"column {column.name!r}: the model knows it as {needed['kind']}, here it is {column.kind}"
                )
        numbers = np.empty((table.n_rows, len(self._number_names)))
        for j, name in enumerate(self._number_names):
            numbers[:, j] = table.columns[name].values
        return self._assemble(numbers, [table.columns[name].values.tolist() for name in self._category_names])

    def transform_rows(
        self, rows: Sequence[Mapping[str, Any]]
    ) -> tuple[NDArray[np.float64] | sparse.csr_array, FeatureCounts, list[str]]:
        """Turn JSON rows into features: what `table_from_rows` and `transform` do, without a table in between.

        Returns
        -------
        X, counts
            As of `transform`.
        extra : list of str
            Names in the rows that are not needed, sorted.

        Raises
        ------
        MissingColumns, BadValue
            See `table_from_rows`.
        """
        numbers, categories, extra = self._reader.read(rows)
        return *self._assemble(numbers, categories), extra

    def _assemble(
        self, numbers: NDArray[np.float64], categories: Sequence[list[str | None]]
    ) -> tuple[NDArray[np.float64] | sparse.csr_array, FeatureCounts]:
        """Features of the values of the number columns, which may be written over, and of each category column."""
        counts = FeatureCounts()
        n = len(numbers)
        n_valued, n_dense = len(self._valued), len(self._valued) + len(self._indicated)
        codes = self._category_codes(categories, counts)
        if self.n_features == numbers.shape[1] == n_valued:
            self._standardise(numbers, counts)
            dense = numbers
        else:
            dense = np.zeros((n, n_dense if self.sparse else self.n_features))
            dense[:, :n_valued] = numbers[:, self._valued]
            self._standardise(dense[:, :n_valued], counts)
            dense[:, n_valued:n_dense] = ~np.isfinite(numbers[:, self._indicated])
        if not self.sparse:
            for code in codes:
                known = np.flatnonzero(code >= 0)
                dense[known, code[known]] = 1.0
            return dense, counts
        indices = np.column_stack([np.broadcast_to(np.arange(n_dense, dtype=np.int64), (n, n_dense)), *codes])
        entries = np.column_stack([dense, np.ones((n, len(codes)))])
        keep = (indices >= 0) & (entries != 0)
        X = sparse.csr_array(
            (entries[keep], indices[keep], np.concatenate([[0], np.cumsum(keep.sum(axis=1))])),
            shape=(n, self.n_features),
        )
        return X, counts

    def _standardise(self, block: NDArray[np.float64], counts: FeatureCounts) -> None:
        """Fill and scale the values of the number columns in place."""
        finite = np.isfinite(block)
        if not finite.all():
            absent = ~finite
            np.copyto(block, self._valued_median, where=absent)
            surprises = absent.sum(axis=0) * self._surprising_if_missing
            counts.missing.update({self._valued_names[j]: int(surprises[j]) for j in np.flatnonzero(surprises)})
        with np.errstate(over="ignore"):
            block -= self._valued_mean
            block /= self._valued_scale
        np.maximum(block, -LARGEST_SCORE, out=block)
        np.minimum(block, LARGEST_SCORE, out=block)

    def _category_codes(self, categories: Sequence[list[str | None]], counts: FeatureCounts) -> list[NDArray[np.int64]]:
        """Per category column: which feature each row sets, -1 for none."""
        codes = []
        for name, index, values in zip(self._category_names, self._level_index, categories, strict=True):
            column = np.fromiter(map(index.get, values, repeat(-1)), np.int64, len(values))
            unseen = int(np.count_nonzero(column < 0))
            if unseen:
                counts.unseen[name] = unseen
            codes.append(column)
        return codes

    # -- storing ------------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """What was fitted, as arrays and as JSON-ready values; `from_state` takes both."""
        number_text, number_ends = pack_strings(self._number_names)
        category_text, category_ends = pack_strings(self._category_names)
        level_text, level_ends = pack_strings([level for levels in self._levels for level in levels])
        arrays: dict[str, NDArray[Any]] = {
            "number_text": number_text,
            "number_ends": number_ends,
            "median": self._median,
            "mean": self._mean,
            "scale": self._scale,
            "indicator": self._indicator,
            "category_text": category_text,
            "category_ends": category_ends,
            "level_text": level_text,
            "level_ends": level_ends,
            "level_counts": np.array([len(levels) for levels in self._levels], dtype=np.int64),
            "missing_level": self._missing_level,
        }
        return arrays, {"sparse": self.sparse}

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> Self:
        """Rebuild from `state`, believing nothing.

        Parameters
        ----------
        arrays : mapping of str to ndarray
            One-dimensional, of the types that `state` gives; floats finite.
        meta : mapping

        Raises
        ------
        StateError
            If the parts contradict each other.
        """
        number_names = unpack_strings(arrays["number_text"], arrays["number_ends"])
        category_names = unpack_strings(arrays["category_text"], arrays["category_ends"])
        all_levels = unpack_strings(arrays["level_text"], arrays["level_ends"])
        counts = arrays["level_counts"].tolist()
        names = [*number_names, *category_names]
        if len(set(names)) != len(names):
            raise StateError("table features: a column is named twice")
        if any(len(arrays[key]) != len(number_names) for key in ("median", "mean", "scale", "indicator")):
            raise StateError("table features: numbers need one median, mean, scale and indicator each")
        if len(counts) != len(category_names) or len(arrays["missing_level"]) != len(category_names):
            raise StateError("table features: categories need one level count and missing flag each")
        if any(count < 0 for count in counts) or sum(counts) != len(all_levels):
            raise StateError("table features: the level counts do not add up to the levels")
        if (arrays["scale"] < 0).any() or ((arrays["scale"] == 0) & (arrays["indicator"] == 0)).any():
            raise StateError("table features: a scale must be above 0, or 0 for a column that is only an indicator")
        if (arrays["indicator"] > 1).any() or (arrays["missing_level"] > 1).any():
            raise StateError("table features: flags must be 0 or 1")
        if not isinstance(meta.get("sparse"), bool):
            raise StateError("table features: 'sparse' must be true or false")
        levels = []
        start = 0
        for count in counts:
            levels.append(all_levels[start : start + count])
            start += count
            if len(set(levels[-1])) != count:
                raise StateError("table features: a level is listed twice")
        self = cls()
        self._set(
            number_names=number_names,
            median=arrays["median"],
            mean=arrays["mean"],
            scale=arrays["scale"],
            indicator=arrays["indicator"],
            category_names=category_names,
            levels=levels,
            missing_level=arrays["missing_level"],
        )
        self.sparse = meta["sparse"]
        return self


_NUMBER_TYPES = frozenset({int, float, bool, type(None)})


def table_from_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[Mapping[str, str]]) -> tuple[Table, list[str]]:
    """Take the columns that a model needs out of JSON rows.

    Parameters
    ----------
    rows : sequence of mappings
        Column name to value. ``None`` is a missing value. A number column takes finite numbers and booleans; a category
        column takes text, booleans (``"true"``, ``"false"``) and whole numbers (their digits).
    columns : sequence of mappings
        ``{"name", "kind"}`` each, as ``TableFeatures.columns`` or ``Model.columns``.

    Returns
    -------
    table : Table
    extra : list of str
        Names in the rows that are not needed, sorted.

    Raises
    ------
    MissingColumns
        If any row lacks one of the columns; it lists all that are lacking somewhere.
    BadValue
        For the first value of a wrong type.
    """
    reader = RowReader(columns)
    numbers, categories, extra = reader.read(rows)
    made = {name: Column(name, "number", numbers[:, j]) for j, name in enumerate(reader.numbers)}
    for name, values in zip(reader.categories, categories, strict=True):
        made[name] = Column(name, "category", np.array([*values, None], dtype=object)[:-1])
    return Table(made), extra


class RowReader:
    """Takes the columns that a model needs out of JSON rows; made once a model, so that one row is quick.

    Parameters
    ----------
    columns : sequence of mappings
        ``{"name", "kind"}`` each.
    """

    def __init__(self, columns: Sequence[Mapping[str, str]]) -> None:
        self.numbers = [column["name"] for column in columns if column["kind"] == "number"]
        self.categories = [column["name"] for column in columns if column["kind"] != "number"]
        self._known = {*self.numbers, *self.categories}
        self._pick: Callable[[Mapping[str, Any]], Sequence[Any]] = _picker(self.numbers)

    def read(self, rows: Sequence[Mapping[str, Any]]) -> tuple[NDArray[np.float64], list[list[str | None]], list[str]]:
        """Return the number columns as one array, each category column as a list, and the names not needed.

        Raises
        ------
        MissingColumns, BadValue
            See `table_from_rows`.
        """
        try:
            numbers = self._number_block(list(map(self._pick, rows)))
            categories = [_categories(name, [row[name] for row in rows]) for name in self.categories]
        except KeyError:
            names = [*self.numbers, *self.categories]
            raise MissingColumns([name for name in names if any(name not in row for row in rows)]) from None
        extra: set[str] = set()
        for row in rows:
            if len(row) > len(self._known):  # it has all of them, so only then can there be others
                extra.update(row.keys() - self._known)
        return numbers, categories, sorted(extra)

    def _number_block(self, rows: list[Sequence[Any]]) -> NDArray[np.float64]:
        """Values of the number columns, shape (rows, columns), NaN for None."""
        values = list(chain.from_iterable(rows))
        try:
            # All at once; an array of this type takes no text, which NumPy would read as a number.
            try:
                block = np.array(array("d", values))
                missing = 0
            except TypeError:
                block = np.array(array("d", [math.nan if value is None else value for value in values]))
                missing = values.count(None)
        except (TypeError, OverflowError):
            pass
        else:
            if np.count_nonzero(np.isfinite(block)) == len(values) - missing:
                return block.reshape(len(rows), len(self.numbers))
        for i, row in enumerate(rows):
            for name, value in zip(self.numbers, row, strict=True):
                if type(value) not in _NUMBER_TYPES or (value is not None and not _is_finite(value)):
                    raise BadValue(i, name, "a finite number or null")
        raise AssertionError("unreachable: one of the values was refused")


def _picker(names: list[str]) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    """Return what gives the values of these columns of a row, raising `KeyError` if it has not all of them."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda row: [row[name] for name in names]


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _categories(name: str, values: list[Any]) -> list[str | None]:
    texts = []
    for row, value in enumerate(values):
        if value is None or type(value) is str:
            texts.append(value)
        elif value is True or value is False:
            texts.append("true" if value else "false")
        elif type(value) is int and abs(value) < 10**40:  # turning a huge int into digits is slow
            texts.append(str(value))
        else:
            raise BadValue(row, name, "text, a whole number, true, false or null")
    return texts
