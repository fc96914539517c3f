"""The fitted form of every classifier here: a kernel expansion with a threshold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from scipy import sparse

from solver.band import Band
from solver.evaluation.probability import Sigmoid, told_band
from solver.kernels.values import KernelColumns
from solver.typing import BoolArray, FloatArray, Matrix

# elements of one block of kernel values: 4 MB of float64 stays in cache
_BLOCK_ELEMENTS: Final = 1 << 19
# A row is far from all support vectors where these say together no more than this part of what the strongest one
# alone can say.
_FAR: Final = 1e-3


@dataclass(frozen=True)
class DecisionState:
    """Score f(x) = Σ_j dual_coef_j K(support_vectors_j, x) + intercept, decision f(x) > threshold.

    Attributes
    ----------
    kind : str
        `rbf`, `linear`, `poly` or `sigmoid`.
    gamma, degree, coef0 : float, int, float
        Parameters of the kernel, as numbers.
    support_vectors : dense array or CSR matrix of shape (m, d)
    dual_coef : float64 array of shape (m,)
        Label times dual variable, y_j a_j.
    intercept, threshold : float
    band : Band or None
        Around the threshold: rows in it get no label. None: every row gets one.
    probability : Sigmoid or None
        Turns scores into probabilities of the positive class; they never decide.
    """

    kind: str
    gamma: float
    degree: int
    coef0: float
    support_vectors: Matrix
    dual_coef: FloatArray
    intercept: float
    threshold: float
    probability: Sigmoid | None = None
    band: Band | None = None

    def decision_function(self, X: Matrix) -> FloatArray:
        """Scores of rows.

        Parameters
        ----------
        X : dense array or CSR matrix of shape (n, d)

        Returns
        -------
        float64 array of shape (n,)
        """
        n, m = X.shape[0], len(self.dual_coef)
        if self.kind == "linear":
            scores = np.asarray(X @ self.weights, dtype=np.float64)
        elif n == 1 or n * m <= _BLOCK_ELEMENTS:
            scores = self._columns.block(X).dot(self.dual_coef)
        else:
            step = max(1, _BLOCK_ELEMENTS // m)
            scores = np.empty(n)
            for start in range(0, n, step):
                scores[start : start + step] = self._columns.block(X[start : start + step]) @ self.dual_coef
        scores += self.intercept
        return scores

    @cached_property
    def unlike_limit(self) -> float:
        """How far the score of a row that no support vector is near (`are_far`) is from the intercept at most.

        Below 0 where there are no such rows: only the RBF kernel has them.
        """
        if self.kind != "rbf" or not len(self.dual_coef):
            return -1.0
        return _FAR * float(np.abs(self.dual_coef).max())

    def are_far(self, X: Matrix) -> BoolArray:
        """Which rows no support vector is near: what all of them say of such a row is next to nothing."""
        n, m = X.shape[0], len(self.dual_coef)
        step = max(1, _BLOCK_ELEMENTS // m)
        far = np.empty(n, dtype=bool)
        for start in range(0, n, step):
            said = self._columns.block(X[start : start + step]) @ np.abs(self.dual_coef)
            far[start : start + step] = said <= self.unlike_limit
        return far

    @cached_property
    def weights(self) -> FloatArray:
        """The hyperplane of the linear kernel."""
        return np.asarray(self.support_vectors.T @ self.dual_coef, dtype=np.float64)

    @cached_property
    def _columns(self) -> KernelColumns:
        """The support vectors, prepared once: a single row is then quick."""
        return KernelColumns(self.support_vectors, self.kind, self.gamma, self.degree, self.coef0)

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Probabilities of the positive class for scores.

        Raises
        ------
        ValueError
            If the model has none.
        """
        if self.probability is None:
            raise ValueError("this model gives no probabilities")
        return self.probability(scores)

    @property
    def threshold_probability(self) -> float | None:
        """The threshold as a probability: the label is positive where the probability is above it; None without one."""
        return None if self.probability is None else self.probability.of_threshold(self.threshold)

    @property
    def told_band(self) -> dict[str, float | None] | None:
        """The scores that get no label, and the same as probabilities, as answers have them."""
        return told_band(self.band, self.probability)

    def predict_positive(self, X: Matrix) -> BoolArray:
        """Which rows are decided positive: score strictly above the threshold, whether or not a band is around it."""
        return self.decision_function(X) > self.threshold

    def scores_like(self, other: DecisionState) -> bool:
        """Whether the scores of all rows are the same as those of `other`, a decision of the same fit."""
        same = (
            (self.kind, self.gamma, self.degree, self.coef0, self.intercept)
            == (other.kind, other.gamma, other.degree, other.coef0, other.intercept)
            and self.support_vectors.shape == other.support_vectors.shape
            and np.array_equal(self.dual_coef, other.dual_coef)
        )
        if not same:
            return False
        difference = self.support_vectors - other.support_vectors
        return bool(difference.count_nonzero() == 0 if sparse.issparse(difference) else not np.any(difference))

    def with_threshold(self, threshold: float, band: Band | None = None) -> DecisionState:
        """The same scores with another threshold, and with this band or none."""
        return replace(self, threshold=threshold, band=band)

    def says(self, scores: FloatArray) -> tuple[BoolArray, BoolArray]:
        """Of which rows with these scores the positive class is said, and of which the negative one."""
        if self.band is None:
            positive = scores > self.threshold
            return positive, ~positive
        return scores > self.band.upper, scores <= self.band.lower
