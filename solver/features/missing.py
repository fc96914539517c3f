"""What becomes of rows with missing values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, get_args

import numpy as np

from solver.features.columns import Column, Table, chosen_names
from solver.features.matrix import MatrixData
from solver.typing import BoolArray

# indicate: the median (of numbers) or mean (of dates) stands in, and a 0/1 feature says where; "missing" is a category
# impute: the same without saying where; a missing category counts as the most frequent one
# drop: rows with a missing value take no part in training; predicting cannot drop rows: it imputes, with a warning
# error: neither training nor predicting takes a missing value
# A missing text is one without words, unless its row is dropped or refused. The gaps of a matrix are zeros.
MissingPolicy = Literal["indicate", "impute", "drop", "error"]
MISSING_POLICIES: Final[tuple[MissingPolicy, ...]] = get_args(MissingPolicy)


def missing_values(
    data: Table | MatrixData, include: Sequence[str] | None, exclude: Sequence[str]
) -> tuple[BoolArray, dict[str, int]]:
    """Find rows that lack a value which could be a feature.

    Columns without any value do not count: no pipeline uses them.

    Parameters
    ----------
    data : Table or MatrixData
        In a matrix, entries that are not finite are missing.
    include, exclude : sequence of str
        The columns of a table that may become features, as in `TableFeatures`.

    Returns
    -------
    rows : bool array of shape (rows,)
    counts : dict of str to int
        Missing values by column of a table; of a matrix, those of all columns under `"matrix"`.
    """
    incomplete = np.zeros(data.n_rows, dtype=bool)
    if isinstance(data, MatrixData):
        entries = data.X if isinstance(data.X, np.ndarray) else data.X.data
        absent = ~np.isfinite(entries)
        if isinstance(data.X, np.ndarray):
            incomplete = absent.any(axis=1)
        else:
            incomplete[np.repeat(np.arange(data.n_rows), np.diff(data.X.indptr))[absent]] = True
        n_absent = int(np.count_nonzero(absent))
        return incomplete, {"matrix": n_absent} if n_absent else {}
    counts = {}
    for name in chosen_names(data.columns, include, exclude):
        absent = _absent(data.columns[name])
        n_absent = int(np.count_nonzero(absent))
        if 0 < n_absent < len(absent):
            counts[name] = n_absent
            incomplete |= absent
    return incomplete, counts


def _absent(column: Column) -> BoolArray:
    if column.kind == "vector":
        return np.zeros(len(column.values), dtype=bool)
    if column.kind == "number":
        return np.asarray(~np.isfinite(column.values))
    return np.fromiter((value is None for value in column.values.tolist()), bool, len(column.values))
