"""Single columns that tell the label almost perfectly: maybe written down after it was known, or instead of it.

A warning must not come by chance where thousands of columns meet few labels. So a column is named only if labels drawn
at random would be told as well by one of all columns with a probability of at most one in a thousand. The bound counts:
of all ways to give the labels to the rows, so many are within so few errors of one of the rules that a column allows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import gammaln, logsumexp

from solver.features import Column, MatrixData, Table
from solver.typing import BoolArray, IndexArray

# rows told wrong, as a share of the smaller class
MOST_ERRORS: Final = 0.02
CHANCE: Final = 1e-3
# labelled rows that are looked at, half of each class where there are so many
MOST_ROWS: Final = 2000
MOST_NAMED: Final = 10
# entries of a matrix that are unpacked at once
_LONGEST_RUN: Final = 1 << 22
_TWO: Final = float(np.log(2))


def telling_columns(
    data: Table | MatrixData, columns: Sequence[Mapping[str, Any]], codes: NDArray[np.int8], seed: int
) -> list[str]:
    """Say which columns alone tell the label of nearly all labelled rows.

    Of a number or an ISO date, a threshold tells; of a category, each of its values; of any column, whether it has one.

    Parameters
    ----------
    data : Table or MatrixData
    columns : sequence of mappings
        `{"name", "kind"}` of the columns of a table that are features.
    codes : int8 array of shape (rows,)
        1 for positive, 0 for negative; other rows are not looked at.
    seed : int
        Of the choice of the rows, where there are many.

    Returns
    -------
    list of str
        A sentence for each column, for at most ten of them.
    """
    rows = _some_rows(codes, seed)
    truth = codes[rows] == 1
    smaller = min(int(truth.sum()), int((~truth).sum()))
    most = int(MOST_ERRORS * smaller)
    if smaller < 2:
        return []
    if isinstance(data, MatrixData):
        width = int(data.X.shape[1])
        found = _of_matrix(data, rows, truth)
    else:
        width = len(columns)
        found = (
            (each["name"], *_of_column(data.columns[each["name"]], each["kind"], rows, truth))
            for each in columns
            if each["kind"] != "vector"  # of hundreds of numbers, which no one rule tells by
        )
    chances = [_log_chance(len(truth), int(truth.sum()), errors) + np.log(max(width, 1)) for errors in range(most + 1)]
    telling = [
        (errors, name) for name, errors, ways in found if errors <= most and chances[errors] + ways <= np.log(CHANCE)
    ]
    telling.sort(key=lambda each: each[0])
    said = [
        f"column {name!r} alone tells the label of {len(truth) - errors} of {len(truth)} labelled rows: it may tell "
        "what you want to predict; if it is not known yet when you predict, leave it out: "
        + json.dumps({"features": {"exclude": [name]}}, ensure_ascii=False)
        for errors, name in telling[:MOST_NAMED]
    ]
    if len(telling) > MOST_NAMED:
        said.append(f"and {len(telling) - MOST_NAMED} more columns alone tell the label of nearly all labelled rows")
    return said


def _some_rows(codes: NDArray[np.int8], seed: int) -> IndexArray:
    rows = [np.flatnonzero(codes == code) for code in (0, 1)]
    if sum(map(len, rows)) <= MOST_ROWS:
        return np.concatenate(rows)
    rng = np.random.default_rng(seed)
    share = MOST_ROWS // 2
    few = [max(share, MOST_ROWS - len(other)) for other in reversed(rows)]
    return np.concatenate([rng.permutation(part)[:n] for part, n in zip(rows, few, strict=True)])


def _log_chance(n: int, positive: int, errors: int) -> float:
    """Logarithm of the share of all ways to label the rows that are within so many errors of one given way."""
    i = np.arange(errors + 1)
    return float(logsumexp(_log_choose(n, i)) - _log_choose(n, np.array(positive)))


def _log_choose(n: int, k: NDArray[Any]) -> Any:
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def _of_column(column: Column, kind: str, rows: IndexArray, truth: BoolArray) -> tuple[int, float]:
    """Rows that the best rule on a column tells wrong, and the logarithm of the number of its rules."""
    values = column.values[rows]
    if column.kind == "number" and kind == "number":
        return _by_threshold(values, truth)
    texts = ["" if value is None or value != value else str(value) for value in values.tolist()]
    if kind == "text":
        texts = ["x" if text else "" for text in texts]
    _, coded = np.unique(np.array(texts, dtype=object), return_inverse=True)
    if kind == "date":
        is_missing = np.array([not text for text in texts])
        # Dates that begin with the year have the order of their texts; of others only tells whether there is one.
        ordered = all(text[:4].isdigit() for text in texts if text)
        return _by_threshold(np.where(is_missing, np.nan, coded if ordered else 0.0), truth)
    levels = int(coded.max()) + 1
    positive = np.bincount(coded, weights=truth, minlength=levels)
    return int(np.minimum(positive, np.bincount(coded, minlength=levels) - positive).sum()), levels * _TWO


def _by_threshold(values: NDArray[Any], truth: BoolArray) -> tuple[int, float]:
    values = np.asarray(values, dtype=np.float64)
    known = np.isfinite(values)
    wrong_of_missing = min(int((truth & ~known).sum()), int((~truth & ~known).sum()))
    ways = float(np.log(4 * (len(truth) + 1)))  # each threshold, either side, and what a missing value means
    values, truth = values[known], truth[known]
    order = np.argsort(values, kind="stable")
    values, truth = values[order], truth[order]
    below = np.concatenate([[0], np.cumsum(truth)])
    wrong = below + (int((~truth).sum()) - (np.arange(len(truth) + 1) - below))  # where what lies above is positive
    at = np.concatenate([[True], values[1:] != values[:-1], [True]]) if len(values) else np.array([True])
    wrong = wrong[at]
    return int(min(wrong.min(), len(truth) - wrong.max())) + wrong_of_missing, ways


def _of_matrix(data: MatrixData, rows: IndexArray, truth: BoolArray) -> Iterator[tuple[str, int, float]]:
    X = sparse.csc_array(data.X[rows])
    counts = np.diff(X.indptr)
    least = min(int(truth.sum()), int((~truth).sum()))
    # A column that is zero nearly everywhere, or of few entries, cannot tell one class from the other.
    some = np.flatnonzero(counts >= least * (1 - MOST_ERRORS))
    step = max(1, _LONGEST_RUN // max(1, len(rows)))
    for start in range(0, len(some), step):
        block = X[:, some[start : start + step]].toarray()
        for j, values in zip(some[start : start + step].tolist(), block.T, strict=True):
            yield (str(data.first_index + j), *_by_threshold(values, truth))
