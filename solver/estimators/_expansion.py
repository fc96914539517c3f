"""What a training gives: coefficients of rows, or a plane, with an intercept."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from solver.estimators._quadratic import Quadratic
from solver.lowrank import LowRankSolution
from solver.planes import Plane
from solver.smo import Solution
from solver.typing import FloatArray, IndexArray


@dataclass(frozen=True)
class Expansion:
    """f(x) = Σ_j coefficients_j K(x_{rows_j}, x) + intercept over rows of the training set; or a plane, or quadratic.

    Attributes
    ----------
    rows, coefficients, intercept : int array, float64 array, float
    solution : Solution
        What gave it.
    sums : float64 array of shape (n,), optional
        Scores without the intercept by row of the run, as far as the solver knew them (NaN elsewhere).
    duals : float64 array of shape (n,), optional
        y · alpha by row of the run: what the next training starts from.
    plane : Plane or Quadratic, optional
        Says it all, whatever the run's kernel. There are no rows and coefficients then.
    """

    rows: IndexArray
    coefficients: FloatArray
    intercept: float
    solution: Solution = field(repr=False, compare=False)
    sums: FloatArray | None = field(default=None, repr=False, compare=False)
    duals: FloatArray | None = field(default=None, repr=False, compare=False)
    plane: Plane | Quadratic | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_plane(cls, plane: Plane | Quadratic, rounds: int = 1) -> Expansion:
        """A model that no quadratic program gave."""
        none = np.zeros(0)
        solution = Solution(
            alpha=none,
            b=plane.intercept,
            b_low=plane.intercept,
            b_high=plane.intercept,
            objective=0.0,
            gap=0.0,
            iterations=rounds,
            status="optimal",
            gradient=none,
            n_support=0,
            n_bounded=0,
            n_kernel_rows=0,
            seconds=0.0,
            engine="none",
        )
        return cls(np.zeros(0, dtype=np.intp), none, plane.intercept, solution, plane=plane)

    @classmethod
    def from_solution(cls, rows: IndexArray, y: FloatArray, solution: Solution, total: int) -> Expansion:
        """Sum the variables of each row; several variables may stand on one row.

        A low-rank solution that was not polished is an expansion over its landmarks instead.
        """
        if isinstance(solution, LowRankSolution) and solution.polish is None:
            return cls(solution.factor.landmarks, solution.coefficients, float(solution.b), solution)
        dense = np.bincount(rows, weights=y * solution.alpha, minlength=total).astype(np.float64)
        used = np.flatnonzero(dense)
        return cls(used, dense[used], float(solution.b), solution)

    def added_to(self, other: Expansion) -> Expansion:
        """The other one with this one's duals and sums added: a start for training on the rows of both, no model."""
        if self.duals is None or other.duals is None or self.sums is None or other.sums is None:
            return other
        return replace(other, duals=self.duals + other.duals, sums=self.sums + other.sums)
