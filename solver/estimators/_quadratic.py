"""Scores that are quadratic in the features, as decision functions with a kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.decision import DecisionState
from solver.typing import FloatArray, IndexArray, Matrix


@dataclass(frozen=True)
class Quadratic:
    """f(x) = Σ_j (curvatures_j t_j² + slopes_j t_j) + intercept, with t_j = directions_jᵀ x.

    Attributes
    ----------
    directions : float64 array of shape (m, d)
    curvatures, slopes : float64 arrays of shape (m,)
    intercept : float
    """

    directions: FloatArray
    curvatures: FloatArray
    slopes: FloatArray
    intercept: float

    def of_standardised(self, shift: FloatArray, scale: FloatArray) -> Quadratic:
        """The same for (x - shift) / scale in place of x, with directions so long that t_j is about 1."""
        directions = self.directions / scale
        at_shift = directions @ shift
        intercept = self.intercept + float((self.curvatures * at_shift - self.slopes) @ at_shift)
        slopes = self.slopes - 2 * self.curvatures * at_shift
        size = np.maximum(1.0, np.abs(at_shift))
        return Quadratic(directions / size[:, None], self.curvatures * size**2, slopes * size, intercept)

    def scores(self, X: Matrix, rows: IndexArray) -> FloatArray:
        """Scores of some rows, with the rounding of those that the model will give."""
        return self.state(0.0).decision_function(X[rows])

    def state(self, threshold: float) -> DecisionState:
        """As a decision function with a kernel: linear, or polynomial of degree 2.

        With K(v, x) = (vᵀx + 1)² and t = vᵀx, K(v, x) + K(-v, x) = 2 t² + 2 and K(v, x) - K(-v, x) = 4 t: two vectors
        for each direction give any curvature and slope along it. Where t is about 1, no part swallows another.
        """
        if not self.curvatures.any():
            weights = self.slopes @ self.directions
            return DecisionState("linear", 1.0, 1, 0.0, weights[None, :], np.ones(1), self.intercept, threshold)
        even, odd = self.curvatures / 2, self.slopes / 4
        return DecisionState(
            kind="poly",
            gamma=1.0,
            degree=2,
            coef0=1.0,
            support_vectors=np.vstack([self.directions, -self.directions]),
            dual_coef=np.concatenate([even + odd, even - odd]),
            intercept=self.intercept - 2 * float(even.sum()),
            threshold=threshold,
        )
