"""The SVMs of several classes trained together: all problems of two classes, and all folds, on the same kernel rows."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy import sparse

from solver.estimators.svm import SVM
from solver.kernels.kernel import FeatureKernel, Kernel, PrecomputedKernel
from solver.multiclass import LeftOutProblemScores, OwnRows, Scheme, SharedExpansion, own_rows
from solver.multiclass.decision import Sums, planes_of
from solver.smo import (
    MatrixSolutions,
    Program,
    Solution,
    StoppingLimits,
    kernel_of_its_own,
    solve_many,
    solve_on_matrix,
)
from solver.smo.problems_on_matrix import LARGEST
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix

# up to so many labelled rows the kernel matrix is computed once, in float64
_WHOLE_MATRIX: Final = 4096
_STOPPED: Final = "cancelled"
_PROGRAM_BYTES: Final = 64 << 20
"""Of programs that are solved side by side, with their solutions."""
_SCORES_AT_ONCE: Final = 1 << 20
_VALUES_AT_ONCE: Final = 1 << 22


@dataclass(frozen=True)
class Together:
    """What training together gives.

    Attributes
    ----------
    expansion : SharedExpansion
        The scores of the models of all rows.
    left_out : LeftOutProblemScores or None
        By models of folds that a row was not in; None without folds, or where there was no time for them.
    ended : str
        `""`, `"stopped"` or `"solver_limit"`.
    """

    expansion: SharedExpansion
    left_out: LeftOutProblemScores | None
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
    codes: IndexArray,
    classes: int,
    scheme: Scheme,
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
    codes : int array of shape (n,)
        Their classes.
    classes, scheme
        See `own_rows`.
    weight : float64 array of shape (n,)
        Factors on C, above 0.
    fold : int array of shape (n,), optional
        Which fold leaves a row out; -1 for one that is in no fold.
    """
    estimator._validate_params()
    if len(codes) <= _WHOLE_MATRIX:
        # rows of a class side by side, and so those of a pair: they are read sooner
        order = np.argsort(codes, kind="stable")
        X, codes, weight = X[order], codes[order], weight[order]
        fold = None if fold is None else fold[order]
    else:
        order = np.arange(len(codes))
    kernel = FeatureKernel(
        X, kind=estimator.kernel, gamma=estimator._gamma(X), degree=int(estimator.degree), coef0=float(estimator.coef0)
    )
    work = _Work(estimator, kernel, own_rows(codes, classes, scheme), weight, fold)
    work.solve()
    coefficients = work.coefficients(0)
    used = np.flatnonzero(np.bincount(coefficients.indices, minlength=len(codes)))
    expansion = SharedExpansion(
        kernel.kind, kernel.gamma, kernel.degree, kernel.coef0, X[used], sparse.csr_array(coefficients[:, used]),
        work.intercepts[0],
    )  # fmt: skip
    left_out = work.left_out_scores(order) if fold is not None and work.ended != "stopped" else None
    return Together(expansion, left_out, work.ended)


class _Work:
    """The programs of all problems, with and without each fold, and what solves them."""

    def __init__(
        self, estimator: SVM, kernel: FeatureKernel, own: OwnRows, weight: FloatArray, fold: IndexArray | None
    ) -> None:
        self._estimator, self._features, self._own, self._weight, self._fold = estimator, kernel, own, weight, fold
        self._folds = 0 if fold is None else int(fold.max(initial=-1)) + 1
        self._y = np.where(own.positive, 1.0, -1.0)
        self._kernel: Kernel = kernel
        self._whole: FloatArray | None = None
        self._signed: FloatArray = np.zeros((1 + self._folds, len(own.rows)))
        self.intercepts: FloatArray = np.zeros((1 + self._folds, own.problems))
        self._left_out: FloatArray = np.full(len(own.rows), np.nan)
        self._statuses: set[str] = set()
        self._calls = _Calls(estimator, own.problems)

    @property
    def ended(self) -> str:
        """`""`, `"stopped"` or `"solver_limit"`."""
        if _STOPPED in self._statuses:
            return "stopped"
        return "" if self._statuses <= {"optimal"} else "solver_limit"

    def solve(self) -> None:
        """Solve them all: small ones on the kernel matrix, others by the engines."""
        rest: BoolArray = np.ones(self._own.problems, dtype=bool)
        are_small = self._estimator.max_iter == -1 and np.diff(self._own.starts).max(initial=0) <= LARGEST
        # large problems of a linear kernel are sooner solved without one
        pays = self._features.n_samples <= _WHOLE_MATRIX and (are_small or self._features.kind != "linear")
        if pays and self._estimator.device != "cuda":
            K = self._whole = self._features.whole_matrix()
            if are_small:
                solved = self._solve_on_matrix(K)
                if solved.stopped:
                    self._statuses.add(_STOPPED)
                    return
                rest = ~solved.is_solved
            if rest.any():
                self._kernel = PrecomputedKernel(K)
        for numbers in self._some_at_once(np.flatnonzero(rest)):
            for number, path in zip(numbers, solve_many([self._chain(number) for number in numbers]), strict=True):
                self._keep(number, path)
            if self.ended == "stopped":
                return

    def _solve_on_matrix(self, K: FloatArray) -> MatrixSolutions:
        own = self._own
        cost = self._costs(slice(0, len(own.rows)))
        if self._estimator.class_weight == "balanced":
            cost = np.concatenate([self._costs(own.of(number)) for number in range(own.problems)])
        solved = solve_on_matrix(
            K, own.starts, own.rows, self._y, cost, self._fold, tol=float(self._estimator.tol),
            stopped=self._calls.stopped,
        )  # fmt: skip
        self._signed, self.intercepts, self._left_out = solved.signed, solved.intercepts, solved.left_out
        return solved

    def _costs(self, part: slice) -> FloatArray:
        """Upper bounds of the variables of a problem."""
        cost: FloatArray = float(self._estimator.C) * self._weight[self._own.rows[part]]
        if self._estimator.class_weight == "balanced":
            positive = self._own.positive[part]
            of_positive = int(np.count_nonzero(positive))
            cost *= np.where(positive, len(cost) / (2 * of_positive), len(cost) / (2 * (len(cost) - of_positive)))
        return cost

    def _chain(self, number: int) -> list[Program]:
        """The programs of a problem: on all of its rows, then without those of each fold, which stay variables of 0."""
        part = self._own.of(number)
        rows, cost, estimator = self._own.rows[part], self._costs(part), self._estimator
        uppers = [cost]
        if self._fold is not None:
            uppers += [np.where(self._fold[rows] == each, 0.0, cost) for each in range(self._folds)]
        return [
            Program(
                self._kernel, rows, self._y[part], -1.0, 0.0, upper, tol=float(estimator.tol),
                limits=self._calls.limits(number),
                cache_bytes=None if estimator.cache_size is None else int(estimator.cache_size * 2**20),
                backend=estimator.device,
            )
            for upper in uppers
        ]  # fmt: skip

    def _keep(self, number: int, path: list[Solution]) -> None:
        """Keep of the solutions of a problem what is needed."""
        part = self._own.of(number)
        y, rows = self._y[part], self._own.rows[part]
        for step, solution in enumerate(path):
            self._statuses.add(solution.status)
            self._signed[step, part] = y * solution.alpha
            self.intercepts[step, number] = solution.b
            if step and self._fold is not None:
                held_out = np.flatnonzero(self._fold[rows] == step - 1)
                # the gradient is y·(score without intercept) - 1
                scores = y[held_out] * (solution.gradient[held_out] + 1.0) + solution.b
                self._left_out[part.start + held_out] = scores

    def _some_at_once(self, numbers: IndexArray) -> Iterator[list[int]]:
        """Problems in parts, so that programs and solutions of only some of them are there."""
        sizes = np.diff(self._own.starts)[numbers]
        # indices, signs and bounds of a chain; alpha and gradient of its solutions
        needed = 8 * sizes * (2 + 3 * (1 + self._folds))
        if needed.sum() > _PROGRAM_BYTES:
            # whether they share kernel rows is decided for all of them
            outlines = [
                [Program(self._kernel, self._own.rows[self._own.of(number)], 1.0, -1.0, 0.0, 1.0)] for number in numbers
            ]
            self._kernel = kernel_of_its_own(outlines) or self._kernel
        parts = np.cumsum(needed) // _PROGRAM_BYTES
        for part in np.unique(parts):
            yield numbers[parts == part].tolist()

    def coefficients(self, step: int) -> sparse.csr_array:
        """Those of the models of all rows, or of the models without a fold, (problems, n)."""
        signed = self._signed[step]
        kept = self._own.kept(signed != 0)
        coefficients = sparse.csr_array(
            (signed[signed != 0], kept.rows, kept.starts), shape=(self._own.problems, self._features.n_samples)
        )
        coefficients.sort_indices()
        return coefficients

    def left_out_scores(self, order: IndexArray) -> LeftOutProblemScores:
        """Scores by models without the row, of rows as they were before they were put in this order."""
        own = self._own
        original = OwnRows(own.starts, order[own.rows], own.positive)
        of_fold = _FoldScores(
            self._features, self._whole, [self.coefficients(step) for step in range(1 + self._folds)], self.intercepts,
            np.zeros(len(order), dtype=np.intp) if self._fold is None else 1 + self._fold, np.argsort(order),
        )  # fmt: skip
        if own.problems * len(order) > _SCORES_AT_ONCE:
            return LeftOutProblemScores(original, self._left_out, of_fold)
        every = of_fold(np.arange(len(order)))
        return LeftOutProblemScores(original, self._left_out, every.__getitem__)


class _FoldScores:
    """Scores of rows in all problems, by models without the fold that they are in.

    Parameters
    ----------
    kernel : FeatureKernel
    K : float64 array of shape (n, n), optional
        Its values, where they were computed.
    coefficients : list of CSR matrices of shape (problems, n)
        Of the models of all rows, then of those without each fold.
    intercepts : float64 array of shape (1 + folds, problems)
    model : int array of shape (n,)
        Which of the models scores a row.
    place : int array of shape (n,)
        Where a row stands in all these, by the number that it is asked for by.
    """

    def __init__(
        self, kernel: FeatureKernel, K: FloatArray | None, coefficients: list[sparse.csr_array],
        intercepts: FloatArray, model: IndexArray, place: IndexArray,
    ) -> None:  # fmt: skip
        self._kernel, self._K, self._coefficients, self._intercepts = kernel, K, coefficients, intercepts
        self._model, self._place = model, place
        self._prepared: dict[int, FloatArray | tuple[IndexArray, Sums]] = {}

    def __call__(self, rows: IndexArray) -> FloatArray:
        """Scores of some rows, (rows, problems)."""
        places = self._place[rows]
        scores = np.empty((len(rows), self._intercepts.shape[1]))
        for model in np.unique(self._model[places]).tolist():
            mine = np.flatnonzero(self._model[places] == model)
            scores[mine] = self._of_model(model, places[mine])
        return scores

    def _of_model(self, model: int, places: IndexArray) -> FloatArray:
        prepared = self._prepare(model)
        if isinstance(prepared, np.ndarray):
            return np.asarray(self._kernel.X[places] @ prepared + self._intercepts[model], dtype=np.float64)
        used, sums = prepared
        scores = np.empty((len(places), self._intercepts.shape[1]))
        step = max(1, _VALUES_AT_ONCE // max(1, len(used)))
        for start in range(0, len(places), step):
            part = places[start : start + step]
            scores[start : start + step] = sums(self._kernel.matrix(part, used) if self._K is None else self._K[part])
        scores += self._intercepts[model]
        return scores

    def _prepare(self, model: int) -> FloatArray | tuple[IndexArray, Sums]:
        """The planes of a model, or the columns that it needs and what sums them up."""
        if model not in self._prepared:
            self._prepared[model] = self._planes_or_sums(self._coefficients[model])
        return self._prepared[model]

    def _planes_or_sums(self, coefficients: sparse.csr_array) -> FloatArray | tuple[IndexArray, Sums]:
        used = np.arange(coefficients.shape[1])
        if self._K is not None:
            return used, Sums(coefficients)
        if self._kernel.kind == "linear":
            planes = planes_of(coefficients, self._kernel.X)
            if planes is not None:
                return planes
        used = np.flatnonzero(np.bincount(coefficients.indices, minlength=len(used)))
        return used, Sums(sparse.csr_array(coefficients[:, used]))


class _Calls:
    """Tells the estimator's callback how many of the problems were begun, from whichever thread."""

    def __init__(self, estimator: SVM, problems: int) -> None:
        self._callback, self._problems = estimator.callback, problems
        self._max_iter = None if estimator.max_iter == -1 else int(estimator.max_iter)
        self._lock = threading.Lock()
        self._begun: set[int] = set()
        self._stopped = False

    @property
    def stopped(self) -> Callable[[int], bool] | None:
        """Whether the callback says so when so many problems are solved; None without a callback."""
        return None if self._callback is None else self._told

    def limits(self, number: int) -> StoppingLimits:
        """Limits of the programs of a problem."""
        return StoppingLimits(
            self._max_iter, None, None if self._callback is None else functools.partial(self._called, number)
        )

    def _told(self, done: int) -> bool:
        return self._callback is not None and bool(self._callback(done / self._problems, {"problems": done}))

    def _called(self, number: int, iterations: int, gap: float) -> bool:
        with self._lock:
            self._begun.add(number)
            if not self._stopped and self._callback is not None:
                fraction = (len(self._begun) - 1) / self._problems
                self._stopped = bool(self._callback(fraction, {"iterations": iterations, "gap": gap}))
            return self._stopped
