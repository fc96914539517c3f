"""What weighed most in a score: by how much it is higher than it would be without a part of the row.

A part is a column, the vector that an encoder made of a text, or a word of a text. Without it, its features are 0: a
number is the mean of the training, a category none of those known, a date none at all, a vector the mean, a text empty.
A word takes along what the features of its text are owed to it (`solver.features.texts.TermShares`); what the other
words weigh stays as it is. All of this is the same for every kernel. Of the linear one the changes of all parts add up
to the score less the intercept; of others they do not, as parts may say the same thing twice, or only together.

This is what the model does. It is not how the world is: a model of labels that were drawn at random has weights, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from scipy import sparse

from solver.decision import DecisionState
from solver.features import MatrixData, MatrixFeatures, Table, TableFeatures
from solver.features.table import PartKind
from solver.kernels.values import finish, inner_products, squared_norms
from solver.model_file import FittedFeatures
from solver.report import Weighed, Weights
from solver.typing import FloatArray, IndexArray, Matrix

# Parts whose change is computed by kernels that are not linear, those of the steepest slope where there are more.
MOST_PARTS: Final = 512
# elements of one block of kernel values
_BLOCK_ELEMENTS: Final = 1 << 19
# what a report looks at: rows, characters of their texts, and numbers of support vectors that they are multiplied with
MOST_WEIGHED: Final = 200
_CHARACTERS: Final = 1 << 19
_PRODUCTS: Final = 1 << 27
# as many products as one value of a kernel takes
_KERNEL_VALUE: Final = 10
# of each list of a report
_MOST_REPORTED: Final = 20
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
    decision: DecisionState, features: FittedFeatures, X: Matrix, texts: Sequence[Sequence[str | None]], most: int
) -> list[Explanation]:
    """What weighed most in the score of each row.

    Parameters
    ----------
    decision : DecisionState
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
        parts, taken = _parts(features, x, [column[row] for column in texts])
        made.append(_explanation(decision, x, parts, taken, most))
    return made


def has_words(features: FittedFeatures) -> bool:
    """Whether words of texts are parts; else each text is one."""
    return isinstance(features, TableFeatures) and features.has_text and features.keep_words


def _explanation(
    decision: DecisionState, x: Matrix, parts: list[Part], taken: sparse.csr_array, most: int
) -> Explanation:
    chosen = np.arange(len(parts))
    if decision.kind == "linear":
        changes = slopes(decision, x, taken)
        order = chosen[np.argsort(-np.abs(changes), kind="stable")]
        shown = order[:most]
        # summed as they are told, so that nothing is lost between the two
        rest = float(changes[order[most:]].sum())
        return Explanation(_told(parts, shown, changes[shown]), rest)
    if len(parts) > MOST_PARTS:
        chosen = np.argsort(-np.abs(slopes(decision, x, taken)), kind="stable")[:MOST_PARTS]
    found = _changes(decision, x, taken[chosen])
    shown = chosen[np.argsort(-np.abs(found), kind="stable")[:most]]
    exact = _recomputed(decision, x, taken[shown])
    order = np.argsort(-np.abs(exact), kind="stable")
    return Explanation(_told(parts, shown[order], exact[order]), None)


def _told(parts: list[Part], places: IndexArray, changes: FloatArray) -> list[tuple[Part, float]]:
    """Parts with their changes; without those that change nothing."""
    return [(parts[at], change) for at, change in zip(places.tolist(), changes.tolist(), strict=True) if change]


def _parts(
    features: FittedFeatures, x: Matrix, texts: Sequence[str | None], *, words: bool = True
) -> tuple[list[Part], sparse.csr_array]:
    """The parts of one row, and what each takes along of its features: rows of a matrix that add up to that row."""
    entries = sparse.csr_array(x)
    entries.sort_indices()
    indices, values, width = entries.indices.astype(np.int64), entries.data.astype(np.float64), entries.shape[1]
    if isinstance(features, MatrixFeatures):
        named = [Part("column", str(features.first_index + j)) for j in indices.tolist()]
        return named, sparse.csr_array((values, indices, np.arange(len(values) + 1)), shape=(len(values), width))
    known, owners = features.feature_parts
    owned = owners[indices]
    shares = features.term_shares(texts) if words and has_words(features) else None
    if shares is not None:
        is_term = indices >= width - features.term_width
        at = np.searchsorted(indices, shares.features)
        at[at == len(indices)] = 0
        met = indices[at] == shares.features if len(indices) else np.zeros(0, dtype=bool)
        columns = shares.features[met]
        data = values[at[met]] * shares.shares[met]
        rows = shares.owners[met] + len(known)
        owned, indices, values = (
            np.concatenate([owned[~is_term], rows]),
            np.concatenate([indices[~is_term], columns]),
            np.concatenate([values[~is_term], data]),
        )
    found, rows = np.unique(owned, return_inverse=True)
    taken = sparse.csr_array(sparse.coo_array((values, (rows, indices)), shape=(len(found), width)))
    terms = [] if shares is None else shares.terms
    parts = [Part(*known[at]) if at < len(known) else Part("term", *terms[at - len(known)]) for at in found.tolist()]
    return parts, taken


def slopes(decision: DecisionState, x: Matrix, taken: sparse.csr_array) -> FloatArray:
    """What each part would change if the score were a plane that touches it at the row; of the linear kernel it is."""
    vectors, coefficients = decision.support_vectors, decision.dual_coef
    if decision.kind == "linear":
        return np.asarray(taken @ decision.weights, dtype=np.float64)
    kind, gamma, degree, coef0 = decision.kind, decision.gamma, decision.degree, decision.coef0
    dots = _products(x, vectors)
    if kind == "rbf":
        values = finish(dots, squared_norms(x), squared_norms(vectors), kind, gamma, degree, coef0)[0]
        pulled = 2 * gamma * values * coefficients
        own = sparse.csr_array(x).toarray()[0]
        plane = np.asarray(vectors.T @ pulled) - own * pulled.sum()
    else:
        inside = gamma * dots[0] + coef0
        steep = degree * inside ** (degree - 1) if kind == "poly" else 1 - np.tanh(inside) ** 2
        plane = np.asarray(vectors.T @ (gamma * steep * coefficients))
    return np.asarray(taken @ plane, dtype=np.float64)


def _changes(decision: DecisionState, x: Matrix, taken: sparse.csr_array) -> FloatArray:
    """What each part changes, by what it changes of the products with the support vectors.

    To the rounding of these: enough to tell which parts change most.
    """
    vectors = decision.support_vectors
    kernel = (decision.kind, decision.gamma, decision.degree, decision.coef0)
    of_vectors, dots, square = squared_norms(vectors), _products(x, vectors), squared_norms(x)
    whole = float(finish(dots.copy(), square, of_vectors, *kernel)[0] @ decision.dual_coef)
    lost = square - 2 * np.asarray(taken @ sparse.csr_array(x).toarray()[0]) + squared_norms(taken)
    used = np.unique(taken.indices)
    few = taken[:, used]
    if isinstance(vectors, np.ndarray):
        some: Matrix = vectors[:, used]
    else:
        some = sparse.csr_array(vectors[:, used])
    left = np.empty(taken.shape[0])
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
    knows: bool,
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
    knows : bool
        Whether the model tells the labels apart better than chance does.
    """
    texts = features.texts_with_terms(data) if isinstance(features, TableFeatures) and isinstance(data, Table) else []
    rows = rows[: _affordable(decision, texts, len(rows))]
    if not len(rows):
        return None
    columns = _means(decision, features, X, rows, texts, words=False)
    terms = _means(decision, features, X, rows, texts, words=True) if has_words(features) else []
    return Weights(
        rows=len(rows),
        adds_up=decision.kind == "linear",
        columns=columns,
        terms=terms,
        sentence=_sentence(len(rows), knows=knows),
    )


def _sentence(rows: int, *, knows: bool) -> str:
    said = f"What the model's scores of {rows} labelled rows are made of, on average: it says nothing of causes"
    if knows:
        return said + "."
    return (
        f"{said}. The model tells the labels apart no better than chance does, so that these weights are of no use: "
        "one that has learned labels drawn at random has such, too."
    )


def _affordable(decision: DecisionState, texts: Sequence[Sequence[str | None]], rows: int) -> int:
    """How many of so many rows are looked at, one at least."""
    vectors = decision.support_vectors
    size = vectors.size if isinstance(vectors, np.ndarray) else vectors.nnz
    if decision.kind != "linear":
        size += _KERNEL_VALUE * vectors.shape[0] * min(vectors.shape[1], MOST_PARTS)
    most = min(rows, MOST_WEIGHED, max(1, _PRODUCTS // max(1, size)))
    characters = np.cumsum([sum(len(column[row] or "") for column in texts) for row in range(most)])
    return max(1, int(np.searchsorted(characters, _CHARACTERS, side="right"))) if most else 0


def _means(
    decision: DecisionState,
    features: FittedFeatures,
    X: Matrix,
    rows: IndexArray,
    texts: Sequence[Sequence[str | None]],
    *,
    words: bool,
) -> list[Weighed]:
    """Mean changes by word or else by column, the largest mean size first; a row without it counts as no change."""
    found = [
        (X[row : row + 1], *_parts(features, X[row : row + 1], [column[at] for column in texts], words=words))
        for at, row in enumerate(rows.tolist())
    ]
    totals = _totals([(parts, slopes(decision, x, taken)) for x, parts, taken in found])
    if decision.kind != "linear":
        chosen = frozenset(_largest(totals, MOST_PARTS))
        kept = []
        for x, parts, taken in found:
            places = np.array([at for at, part in enumerate(parts) if part in chosen], dtype=np.int64)
            kept.append(([parts[at] for at in places.tolist()], _changes(decision, x, taken[places])))
        totals = _totals(kept)
    wanted = [part for part in _largest(totals, len(totals)) if (part.term is not None) == words]
    return [
        Weighed(
            kind=part.kind,
            column=part.column,
            term=None if part.term is None else cut(part.term),
            mean=totals[part][0] / len(rows),
            mean_size=totals[part][1] / len(rows),
            rows=int(totals[part][2]),
        )
        for part in wanted[:_MOST_REPORTED]
    ]


def _totals(found: Sequence[tuple[list[Part], FloatArray]]) -> dict[Part, list[float]]:
    """By part the sum of its changes, that of their sizes, and of how many rows it changes the score."""
    totals: dict[Part, list[float]] = {}
    for parts, changes in found:
        for part, change in zip(parts, changes.tolist(), strict=True):
            total = totals.setdefault(part, [0.0, 0.0, 0.0])
            total[0] += change
            total[1] += abs(change)
            total[2] += bool(change)
    return totals


def _largest(totals: dict[Part, list[float]], most: int) -> list[Part]:
    return sorted((part for part in totals if totals[part][1] > 0), key=lambda part: -totals[part][1])[:most]


def cut(name: str) -> str:
    """Return a name of a part as it is told: a word may be as long as a text."""
    return name if len(name) <= MOST_OF_A_NAME else name[:MOST_OF_A_NAME] + "…"
