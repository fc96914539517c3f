"""The SVMs of several classes trained together: all problems of two classes, and all folds, on the same kernel rows."""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.estimators.svm import SVM
from solver.kernels.kernel import FeatureKernel, Kernel, PrecomputedKernel
from solver.multiclass.decision import SharedExpansion
from solver.smo import Program, StoppingLimits, solve_many
from solver.typing import FloatArray, IndexArray, Matrix

# up to so many labelled rows the kernel matrix is computed once, in float64
_WHOLE_MATRIX: Final = 4096
_STOPPED: Final = "cancelled"


@dataclass(frozen=True)
class Together:
    """What training together gives.

    Attributes
    ----------
    expansion : SharedExpansion
        The scores of the models of all rows.
    left_out : float64 array of shape (n, problems) or None
        Scores of each row by models of folds that it was not in; NaN where there was no time for them.
    ended : str
        `""`, `"stopped"` or `"solver_limit"`.
    """

    expansion: SharedExpansion
    left_out: FloatArray | None
    ended: str


def can_train_together(estimator: Any) -> bool:
    """Whether the problems of a classifier are plain quadratic programs on one kernel."""
    return (
        type(estimator) is SVM
        and estimator.tune == "none"
        and estimator.labeled_split in ("xfit", "full")
        and estimator.solver != "lowrank"
        and estimator.max_seconds is None
        and (estimator.class_weight is None or estimator.class_weight == "balanced")
    )


def train_together(
    estimator: SVM,
    X: Matrix,
    problems: list[NDArray[np.int8]],
    weight: FloatArray,
    fold: IndexArray | None,
) -> Together:
    """Train the SVM of each problem on labelled rows, and once more without each fold.

    Parameters
    ----------
    estimator : SVM
        Its parameters hold for each problem; gamma is that of all rows.
    X : dense or CSR matrix of shape (n, d)
        Labelled rows.
    problems : list of int8 arrays of shape (n,)
        1, 0, or -2 for a row without a part.
    weight : float64 array of shape (n,)
        Factors on C, above 0.
    fold : int array of shape (n,), optional
        Which fold leaves a row out.
    """
    estimator._validate_params()
    kernel = FeatureKernel(
        X, kind=estimator.kernel, gamma=estimator._gamma(X), degree=int(estimator.degree), coef0=float(estimator.coef0)
    )
    n, folds = X.shape[0], 0 if fold is None else int(fold.max()) + 1
    every = np.arange(n)
    shared: Kernel = kernel
    if n <= _WHOLE_MATRIX and kernel.kind != "linear":
        shared = PrecomputedKernel(kernel.matrix(every, every))
    calls = _Calls(estimator, len(problems))
    chains = [
        _chain(estimator, shared, problem, weight, fold, folds, calls.limits(number))
        for number, problem in enumerate(problems)
    ]
    solved = solve_many(chains)
    coefficients = np.zeros((1 + folds, len(problems), n))
    intercepts = np.zeros((1 + folds, len(problems)))
    for number, (problem, path) in enumerate(zip(problems, solved, strict=True)):
        rows = np.flatnonzero(problem >= 0)
        for step, solution in enumerate(path):
            coefficients[step, number, rows] = np.where(problem[rows] == 1, 1.0, -1.0) * solution.alpha
            intercepts[step, number] = solution.b
    ended = _ended(solved)
    left_out = None
    if fold is not None and ended != "stopped":
        left_out = np.full((n, len(problems)), np.nan)
        for number in range(folds):
            held_out = np.flatnonzero(fold == number)
            left_out[held_out] = _scores(shared, X, coefficients[1 + number], held_out) + intercepts[1 + number]
    used = np.flatnonzero(coefficients[0].any(axis=0))
    expansion = SharedExpansion(
        kernel.kind,
        kernel.gamma,
        kernel.degree,
        kernel.coef0,
        X[used],
        sparse.csr_array(coefficients[0][:, used]),
        intercepts[0],
    )
    return Together(expansion, left_out, ended)


def _chain(
    estimator: SVM,
    kernel: Kernel,
    problem: NDArray[np.int8],
    weight: FloatArray,
    fold: IndexArray | None,
    folds: int,
    limits: StoppingLimits,
) -> list[Program]:
    """The programs of a problem: on all of its rows, then without those of each fold, which stay variables of 0."""
    rows = np.flatnonzero(problem >= 0)
    y = np.where(problem[rows] == 1, 1.0, -1.0)
    cost = estimator.C * weight[rows]
    if estimator.class_weight == "balanced":
        positive = np.count_nonzero(y > 0)
        cost = cost * np.where(y > 0, len(y) / (2 * positive), len(y) / (2 * (len(y) - positive)))
    uppers = [cost]
    if fold is not None:
        uppers += [np.where(fold[rows] == number, 0.0, cost) for number in range(folds)]
    return [
        Program(
            kernel, rows, y, -1.0, 0.0, upper, tol=float(estimator.tol), limits=limits,
            cache_bytes=None if estimator.cache_size is None else int(estimator.cache_size * 2**20),
            backend=estimator.device,
        )
        for upper in uppers
    ]  # fmt: skip


def _scores(kernel: Kernel, X: Matrix, coefficients: FloatArray, rows: IndexArray) -> FloatArray:
    """Scores without intercepts, (rows, problems), of all problems at once."""
    if isinstance(kernel, FeatureKernel) and kernel.kind == "linear":
        return np.asarray(X[rows] @ (X.T @ coefficients.T), dtype=np.float64)
    used = np.flatnonzero(coefficients.any(axis=0))
    sums = np.empty((len(rows), len(coefficients)))
    step = max(1, (1 << 22) // max(1, len(used)))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        sums[start : start + step] = kernel.matrix(part, used) @ coefficients[:, used].T
    return sums


def _ended(solved: list[list[Any]]) -> str:
    statuses = {solution.status for path in solved for solution in path}
    if _STOPPED in statuses:
        return "stopped"
    return "" if statuses == {"optimal"} else "solver_limit"


class _Calls:
    """Tells the estimator's callback how many of the problems were begun, from whichever thread."""

    def __init__(self, estimator: SVM, problems: int) -> None:
        self._callback, self._problems = estimator.callback, problems
        self._max_iter = None if estimator.max_iter == -1 else int(estimator.max_iter)
        self._lock = threading.Lock()
        self._begun: set[int] = set()
        self._stopped = False

    def limits(self, number: int) -> StoppingLimits:
        """Limits of the programs of a problem."""
        return StoppingLimits(
            self._max_iter, None, None if self._callback is None else functools.partial(self._called, number)
        )

    def _called(self, number: int, iterations: int, gap: float) -> bool:
        with self._lock:
            self._begun.add(number)
            if not self._stopped and self._callback is not None:
                fraction = (len(self._begun) - 1) / self._problems
                self._stopped = bool(self._callback(fraction, {"iterations": iterations, "gap": gap}))
            return self._stopped
