"""What weighed most in a score: by how much it is higher than it would be without a part of the row.

A part is a column, the vector that an encoder made of a text, or a word of a text. Without it, its features are 0: a
number is the mean of the training, a category none of those known, a date none at all, a vector the mean, a text empty.
A word takes along what the features of its text are owed to it (`solver.features.texts.TermShares`); what the other
words weigh stays as it is. All of this is the same for every kernel. Of the linear one the changes of all parts add up
to the score less the intercept; of others they do not, as parts may say the same thing twice, or only together.

This is what the model does. It is not how the world is: a model of labels that were drawn at random has weights, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from scipy import sparse

from solver.decision import DecisionState
from solver.features import MatrixData, MatrixFeatures, Table, TableFeatures
from solver.features.table import PartKind
from solver.kernels.values import finish, inner_products, squared_norms
from solver.model_file import FittedFeatures
from solver.report import Weighed, Weights
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix

# Parts whose change is computed by kernels that are not linear, those of the steepest slope where there are more.
MOST_PARTS: Final = 512
# elements of one block of kernel values
_BLOCK_ELEMENTS: Final = 1 << 19
# what a report looks at: rows, characters of their texts, and numbers of support vectors that they are multiplied with
MOST_WEIGHED: Final = 100
_CHARACTERS: Final = 1 << 19
_PRODUCTS: Final = 1 << 26
# what one value of a kernel takes, in products
_KERNEL_VALUE: Final = 10
# what one number of a sparse support vector takes, in products
_SPARSE_NUMBER: Final = 15
# of each list of a report, and parts whose change is computed for it by kernels that are not linear
_MOST_REPORTED: Final = 20
_MOST_LOOKED_AT: Final = 64
# longest name of a part that is told
MOST_OF_A_NAME: Final = 100


class Part(NamedTuple):
    """What may be taken out of a row.

    Attributes
    ----------
    kind : {"column", "term", "encoding"}
    column : str
    term : str or None
        The word.
    """

    kind: PartKind
    column: str
    term: str | None = None


@dataclass(frozen=True)
class Explanation:
    """What weighed most in one score.

    Attributes
    ----------
    changes : list of (Part, float)
        By how much the score is higher than without the part; the largest first, whichever their sign.
    rest : float or None
        The changes of all other parts together, of the linear kernel; None where they do not add up.
    """

    changes: list[tuple[Part, float]]
    rest: float | None


def explain(
    decisions: Sequence[DecisionState],
    features: FittedFeatures,
    X: Matrix,
    texts: Sequence[Sequence[str | None]],
    most: int,
) -> list[Explanation]:
    """What weighed most in the score of each row.

    Parameters
    ----------
    decisions : sequence of DecisionState
        Whose scores add up to that of a row: one, or between two of several classes two.
    features : TableFeatures or MatrixFeatures
        That made `X`.
    X : dense array or CSR matrix of shape (n, d)
    texts : sequence of sequences of str or None
        What `TableFeatures.texts_with_terms` gives; of a matrix, nothing.
    most : int
        Parts of a row, at most.
    """
    made = []
    for row in range(X.shape[0]):
        x = X[row : row + 1]
        parts = _Parts(features, words=has_words(features))
        found, taken = _grouped(*parts.entries(x, [column[row] for column in texts]), X.shape[1])
        made.append(_explanation(decisions, x, parts, found, taken, most))
    return made


def has_words(features: FittedFeatures) -> bool:
    """Whether words of texts are parts; else each text is one."""
    return isinstance(features, TableFeatures) and features.has_text and features.keep_words


def _explanation(
    decisions: Sequence[DecisionState],
    x: Matrix,
    parts: _Parts,
    found: IndexArray,
    taken: sparse.csr_array,
    most: int,
) -> Explanation:
    if add_up(decisions):
        changes = taken @ _sum(_slope, decisions, x)
        order = np.argsort(-np.abs(changes), kind="stable")
        shown = order[:most]
        return Explanation(parts.told(found[shown], changes[shown]), float(changes[order[most:]].sum()))
    chosen = np.arange(len(found))
    if len(found) > MOST_PARTS:
        chosen = np.argsort(-np.abs(taken @ _sum(_slope, decisions, x)), kind="stable")[:MOST_PARTS]
    near = _sum(_changes, decisions, x, taken[chosen])
    shown = chosen[np.argsort(-np.abs(near), kind="stable")[:most]]
    exact = _sum(_recomputed, decisions, x, taken[shown])
    order = np.argsort(-np.abs(exact), kind="stable")
    return Explanation(parts.told(found[shown[order]], exact[order]), None)


def add_up(decisions: Sequence[DecisionState]) -> bool:
    """Whether the changes of all parts are the score less the intercepts."""
    return all(each.kind == "linear" for each in decisions)


def _sum(of: Callable[..., FloatArray], decisions: Sequence[DecisionState], *given: Any) -> FloatArray:
    """What a function makes of each of some decisions, added."""
    made = of(decisions[0], *given)
    for each in decisions[1:]:
        made = made + of(each, *given)
    return made


class _Parts:
    """The parts of rows, by number: first those that each row has, then words as they come.

    Parameters
    ----------
    features : TableFeatures or MatrixFeatures
    words : bool
        Whether words are parts of texts, which is `has_words` then.
    """

    def __init__(self, features: FittedFeatures, *, words: bool) -> None:
        self._features, self.has_words = features, words
        self._terms: dict[tuple[str, str], int] = {}
        """Column and word, with its number among the words."""
        self._first_term = (
            features.n_features if isinstance(features, MatrixFeatures) else len(features.feature_parts[0])
        )

    @property
    def count(self) -> int:
        """How many there are so far."""
        return self._first_term + len(self._terms)

    def are_terms(self) -> BoolArray:
        """Which of them are words."""
        return np.arange(self.count) >= self._first_term

    def entries(self, x: Matrix, texts: Sequence[str | None]) -> tuple[IndexArray, IndexArray, FloatArray]:
        """What each part has of the features of one row, entry by entry: part, feature, and how much of it."""
        indices, values = _numbers_of(x)
        features = self._features
        if isinstance(features, MatrixFeatures):
            return indices, indices, values
        owners = features.feature_parts[1][indices]
        if not self.has_words or not len(indices):
            return owners, indices, values
        shares = features.term_shares(texts)
        numbers = [self._terms.setdefault(term, len(self._terms)) for term in shares.terms]
        at = np.minimum(np.searchsorted(indices, shares.features), len(indices) - 1)
        met = indices[at] == shares.features
        others = indices < features.n_features - features.term_width
        return (
            np.concatenate([owners[others], np.array(numbers, dtype=np.int64)[shares.owners[met]] + self._first_term]),
            np.concatenate([indices[others], shares.features[met]]),
            np.concatenate([values[others], values[at[met]] * shares.shares[met]]),
        )

    def named(self, numbers: Sequence[int]) -> list[Part]:
        """What they are."""
        features = self._features
        if isinstance(features, MatrixFeatures):
            return [Part("column", str(features.first_index + number)) for number in numbers]
        known, terms = features.feature_parts[0], list(self._terms)
        return [
            Part(*known[number]) if number < len(known) else Part("term", *terms[number - len(known)])
            for number in numbers
        ]

    def told(self, numbers: IndexArray, changes: FloatArray) -> list[tuple[Part, float]]:
        """Parts with their changes; without those that change nothing."""
        pairs = zip(self.named(numbers.tolist()), changes.tolist(), strict=True)
        return [(part, change) for part, change in pairs if change]


def _grouped(
    owners: IndexArray, indices: IndexArray, values: FloatArray, width: int
) -> tuple[IndexArray, sparse.csr_array]:
    """The parts of one row, and what each takes along of its features: rows of a matrix that add up to that row."""
    found, rows = np.unique(owners, return_inverse=True)
    return found, sparse.csr_array(sparse.coo_array((values, (rows, indices)), shape=(len(found), width)))


def _grouped_densely(
    owners: IndexArray, indices: IndexArray, values: FloatArray
) -> tuple[IndexArray, FloatArray, IndexArray]:
    """The same of few features, without the milliseconds that each small sparse matrix takes, and those features."""
    found, rows = np.unique(owners, return_inverse=True)
    used, columns = np.unique(indices, return_inverse=True)
    few = np.zeros((len(found), len(used)))
    np.add.at(few, (rows, columns), values)
    return found, few, used


def _numbers_of(x: Matrix) -> tuple[IndexArray, FloatArray]:
    """Which features of one row are not 0, in their order, and what they are."""
    if isinstance(x, np.ndarray):
        indices = np.flatnonzero(x[0])
        return indices, x[0, indices].astype(np.float64)
    row = sparse.csr_array(x)
    row.sort_indices()
    return row.indices.astype(np.int64), row.data.astype(np.float64)


def _all_numbers_of(x: Matrix) -> FloatArray:
    """All features of one row."""
    row: FloatArray = x[0] if isinstance(x, np.ndarray) else sparse.csr_array(x).toarray()[0]
    return row


def _slope(decision: DecisionState, x: Matrix) -> FloatArray:
    """What the score changes by each feature, along the plane that touches it at a row; linear, it is that plane."""
    vectors, coefficients = decision.support_vectors, decision.dual_coef
    if decision.kind == "linear":
        return decision.weights
    kind, gamma, degree, coef0 = decision.kind, decision.gamma, decision.degree, decision.coef0
    dots = _products(x, vectors)
    if kind == "rbf":
        values = finish(dots, squared_norms(x), squared_norms(vectors), kind, gamma, degree, coef0)[0]
        pulled = 2 * gamma * values * coefficients
        return np.asarray(vectors.T @ pulled - _all_numbers_of(x) * pulled.sum(), dtype=np.float64)
    inside = gamma * dots[0] + coef0
    steep = degree * inside ** (degree - 1) if kind == "poly" else 1 - np.tanh(inside) ** 2
    return np.asarray(vectors.T @ (gamma * steep * coefficients), dtype=np.float64)


def _changes(decision: DecisionState, x: Matrix, taken: sparse.csr_array) -> FloatArray:
    """What each part changes, as `_changes_of_few` has it."""
    used = np.unique(taken.indices.astype(np.intp))
    return _changes_of_few(decision, x, taken[:, used], used)


def _changes_of_few(decision: DecisionState, x: Matrix, few: Matrix, used: IndexArray) -> FloatArray:
    """What each part changes, by what it changes of the products with the support vectors.

    To the rounding of these: enough to tell which parts change most. Of a part is given what it takes along of the
    features that are used.
    """
    vectors = decision.support_vectors
    kernel = (decision.kind, decision.gamma, decision.degree, decision.coef0)
    of_vectors, dots, square = squared_norms(vectors), _products(x, vectors), squared_norms(x)
    whole = float(finish(dots.copy(), square, of_vectors, *kernel)[0] @ decision.dual_coef)
    lost = square - 2 * np.asarray(few @ _all_numbers_of(x)[used]) + squared_norms(few)
    if isinstance(vectors, np.ndarray):
        some: Matrix = vectors[:, used]
    else:
        some = sparse.csr_array(vectors[:, used])
    left = np.empty(few.shape[0])
    step = max(1, _BLOCK_ELEMENTS // max(1, len(decision.dual_coef)))
    for start in range(0, len(left), step):
        block = dots - _products(few[start : start + step], some)
        left[start : start + step] = finish(block, lost[start : start + step], of_vectors, *kernel) @ decision.dual_coef
    return whole - left


def _products(rows: Matrix, vectors: Matrix) -> FloatArray:
    """Inner products of few rows with all support vectors; of sparse ones the few are turned round, not the many."""
    if sparse.issparse(vectors):
        return np.ascontiguousarray(inner_products(vectors, rows).T)
    return inner_products(rows, vectors)


def _recomputed(decision: DecisionState, x: Matrix, taken: sparse.csr_array) -> FloatArray:
    """What each part changes, by the decision function itself."""
    if not taken.shape[0]:
        return np.zeros(0)
    whole = float(decision.decision_function(x)[0])
    if isinstance(x, np.ndarray):
        step = max(1, _BLOCK_ELEMENTS // max(1, x.shape[1]))
        blocks = [x - taken[start : start + step].toarray() for start in range(0, taken.shape[0], step)]
        return whole - np.concatenate([decision.decision_function(block) for block in blocks])
    row = sparse.csr_array(x)
    same = sparse.csr_array(sparse.vstack([row] * taken.shape[0], format="csr"))
    return whole - decision.decision_function(sparse.csr_array(same - taken))


# -- of a report -------------------------------------------------------------------------------------------------------


def weights_of(
    decision: DecisionState,
    features: FittedFeatures,
    X: Matrix,
    rows: IndexArray,
    data: Table | MatrixData,
    *,
    knows: bool | None,
) -> Weights | None:
    """What weighs most in the scores of rows, on average.

    Parameters
    ----------
    decision, features
    X : matrix
        Features of all rows.
    rows : int array
        The rows to look at, in the order in which they are taken as far as there is time.
    data : Table or MatrixData
        Those rows, in that order.
    knows : bool or None
        Whether the model tells the labels apart better than chance does; None where no or too few negative rows could
        show it.
    """
    texts: Sequence[Sequence[str | None]] = ()
    if isinstance(features, TableFeatures) and isinstance(data, Table) and has_words(features):
        texts = features.texts_with_terms(data)
    rows = rows[: _affordable(decision, texts, len(rows))]
    if not len(rows):
        return None
    rows_and_texts = [(X[row : row + 1], [column[at] for column in texts]) for at, row in enumerate(rows.tolist())]
    return Weights(
        rows=len(rows),
        adds_up=decision.kind == "linear",
        columns=_means(decision, _Parts(features, words=False), rows_and_texts),
        terms=_means(decision, _Parts(features, words=True), rows_and_texts) if has_words(features) else [],
        sentence=_sentence(len(rows), knows=knows),
    )


def _sentence(rows: int, *, knows: bool | None) -> str:
    said = f"What the model's scores of {rows} labelled rows are made of, on average: it says nothing of causes"
    if knows:
        return said + "."
    if knows is None:
        return f"{said}. Too few negative rows are labelled, or none, to show whether the model tells the labels apart."
    return (
        f"{said}. The model tells the labels apart no better than chance does, so that these weights are of no use: "
        "one that has learned labels drawn at random has such, too."
    )


def _affordable(decision: DecisionState, texts: Sequence[Sequence[str | None]], rows: int) -> int:
    """How many of so many rows are looked at, one at least."""
    vectors = decision.support_vectors
    size = vectors.size if isinstance(vectors, np.ndarray) else _SPARSE_NUMBER * vectors.nnz
    if decision.kind == "linear":
        size = vectors.shape[1]  # its plane is made once
    else:
        size += _KERNEL_VALUE * vectors.shape[0] * min(vectors.shape[1], _MOST_LOOKED_AT)
    most = min(rows, MOST_WEIGHED, max(1, _PRODUCTS // max(1, size)))
    characters = np.cumsum([sum(len(column[row] or "") for column in texts) for row in range(most)])
    return max(1, int(np.searchsorted(characters, _CHARACTERS, side="right"))) if most else 0


def _means(
    decision: DecisionState, parts: _Parts, rows: Sequence[tuple[Matrix, Sequence[str | None]]]
) -> list[Weighed]:
    """Mean changes, of words or else of columns, the largest mean size first; a row without one counts as no change."""
    entries = [parts.entries(x, texts) for x, texts in rows]
    wanted = parts.are_terms() if parts.has_words else np.ones(parts.count, dtype=bool)
    totals = np.zeros((3, parts.count))
    for (x, _), (owners, indices, values) in zip(rows, entries, strict=True):
        found, places = np.unique(owners, return_inverse=True)
        changes = np.zeros(len(found))
        np.add.at(changes, places, values * _slope(decision, x)[indices])
        _count(totals, found, changes)
    order = _largest(totals[1], wanted, _MOST_REPORTED if decision.kind == "linear" else _MOST_LOOKED_AT)
    if decision.kind != "linear":
        is_chosen = np.isin(np.arange(parts.count), order)
        totals = np.zeros((3, parts.count))
        for (x, _), (owners, indices, values) in zip(rows, entries, strict=True):
            kept = is_chosen[owners]
            of_chosen = owners[kept], indices[kept], values[kept]
            if isinstance(x, np.ndarray):
                chosen, few, used = _grouped_densely(*of_chosen)
                near = _changes_of_few(decision, x, few, used)
            else:
                chosen, taken = _grouped(*of_chosen, x.shape[1])
                near = _changes(decision, x, taken)
            _count(totals, chosen, near)
        order = _largest(totals[1], wanted, _MOST_REPORTED)
    return [
        Weighed(
            kind=part.kind,
            column=part.column,
            term=None if part.term is None else cut(part.term),
            mean=float(totals[0, at]) / len(rows),
            mean_size=float(totals[1, at]) / len(rows),
            rows=int(totals[2, at]),
        )
        for at, part in zip(order.tolist(), parts.named(order.tolist()), strict=True)
    ]


def _count(totals: FloatArray, found: IndexArray, changes: FloatArray) -> None:
    """Add changes of parts, their sizes, and whether there are any."""
    totals[:, found] += changes, np.abs(changes), changes != 0


def _largest(sizes: FloatArray, wanted: BoolArray, most: int) -> IndexArray:
    """The wanted ones of the largest size, none of size 0."""
    order = np.argsort(-np.where(wanted, sizes, 0.0), kind="stable")[:most]
    return order[wanted[order] & (sizes[order] > 0)]


def cut(name: str) -> str:
    """Return a name of a part as it is told: a word may be as long as a text."""
    return name if len(name) <= MOST_OF_A_NAME else name[:MOST_OF_A_NAME] + "…"
