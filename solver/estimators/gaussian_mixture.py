"""One Gaussian a class, fitted to labelled and unlabelled rows by expectation maximisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from solver.algorithms import ALGORITHMS
from solver.choices import Covariance
from solver.estimators._calibration import CalibrationPlan
from solver.estimators._expansion import Expansion
from solver.estimators._gaussians import (
    DiagonalGaussians,
    FullGaussians,
    Gaussians,
    Rows,
    TiedGaussians,
    expectation_maximisation,
)
from solver.estimators._run import TrainingRun
from solver.estimators._semi_supervised import SemiSupervisedClassifier
from solver.estimators.parameters import CostParameters
from solver.kernels.parallel import single_threaded_blas
from solver.method_limits import MOST_GAUSSIAN_FEATURES, SPARSE_FEATURES
from solver.typing import IndexArray


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianMixtureClassifier(CostParameters, SemiSupervisedClassifier):
    """Log odds of the positive class under one Gaussian a class, fitted to labelled and unlabelled rows.

    Expectation maximisation from the Gaussians of the labelled rows, whose classes stay as they are. With one
    covariance for both classes (`tied`) the score is linear in the row, else quadratic.

    Parameters
    ----------
    covariance : {"tied", "full", "diag", "shrunk"}, default "tied"
        One for both classes; one each; one each of independent columns; one each, drawn towards the tied one as if as
        many further rows as there are features had it.
    unlabeled_weight : float, default 1.0
        What an unlabelled row counts beside a labelled one.
    ridge : float, default 0.1
        Added to the diagonal of the covariances, of columns of variance 1; at least 1e-9.
    max_rounds : int, default 200
        Most rounds; it ends as soon as the log-likelihood changes by less than a millionth.

    Other Parameters
    ----------------
    kernel, C, tune, gamma, degree, coef0, tol, max_iter, cache_size, device
        Of the SVM that it is compared with (`mode`).
    class_weight : dict, "balanced" or None
        What a labelled row of each class counts.

    Attributes
    ----------
    report_ : Report
        `report_.rounds` has the log-likelihood of each round, with that of the ridge as a prior.

    See Also
    --------
    solver.estimators.parameters : Parameters that classifiers share, and the attributes of a fitted one.

    Notes
    -----
    For rows of at most 2,048 features, as covariances have a value for each pair of them; sparse ones of fewer than 512
    are made dense.

    References
    ----------
    Nigam, McCallum, Thrun and Mitchell, "Text classification from labeled and unlabeled documents using EM", Machine
    Learning 39, 2000.
    """

    declaration: ClassVar = ALGORITHMS["gmm"]

    covariance: Covariance = declaration.defaults["covariance"]
    unlabeled_weight: float = declaration.defaults["unlabeled_weight"]
    ridge: float = declaration.defaults["ridge"]
    max_rounds: int = declaration.defaults["max_rounds"]

    def _start(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        unmeasured: ArrayLike | None = None,
        *,
        with_ruler: bool = False,
    ) -> tuple[TrainingRun, IndexArray]:
        if sparse.issparse(X):
            X = _dense(X)
        run, extra = super()._start(X, y, sample_weight, unmeasured, with_ruler=with_ruler)
        if run.X.shape[1] > MOST_GAUSSIAN_FEATURES:
            raise ValueError(f"gmm takes at most {MOST_GAUSSIAN_FEATURES} features; these are {run.X.shape[1]}")
        return run, extra

    def _train(self, run: TrainingRun, labelled: IndexArray, plan: CalibrationPlan) -> Expansion:
        del plan
        rows = np.concatenate([labelled, run.unlabelled])
        weights = run.cost[rows]
        weights[len(labelled) :] *= self.unlabeled_weight
        Z = np.asarray(run.X[rows], dtype=np.float64)  # a copy
        shift = np.average(Z, axis=0, weights=weights)
        Z -= shift
        scale = np.sqrt(np.average(np.square(Z), axis=0, weights=weights))
        # what is left of a constant by rounding is no variance
        scale[scale <= 1e-12 * np.maximum(np.abs(shift), 1e-300)] = 1.0
        Z /= scale
        with single_threaded_blas():  # the same bits on any number of threads
            fitted = self._fit(run, Rows(Z, run.y[labelled] > 0, weights))
        run.iterations += len(run.trace)
        return Expansion.from_plane(fitted.discriminant().of_standardised(shift, scale), rounds=len(run.trace))

    def _fit(self, run: TrainingRun, rows: Rows) -> Gaussians:
        """The Gaussians of standardised rows."""

        def is_over(entry: dict[str, Any]) -> bool:
            run.trace.append(entry)
            run.progress(run.fraction + 0.01 * (1 - run.fraction), **entry)
            if run.is_exhausted():
                run.ended = run.ended or "solver_limit"
                return True
            return False

        ridge, most = float(self.ridge), int(self.max_rounds)
        model: Gaussians
        if self.covariance == "diag":
            model = DiagonalGaussians(ridge)
        elif self.covariance == "full":
            model = FullGaussians(ridge)
        else:
            model = TiedGaussians(ridge)
        expectation_maximisation(rows, model, most, is_over)
        if self.covariance == "shrunk" and isinstance(model, TiedGaussians):
            drawn = FullGaussians(ridge, model.covariance, rows.Z.shape[1])
            belongs = rows.known()
            belongs += model.memberships(rows.Z) * np.where(belongs.any(axis=1), 0.0, rows.weights)[:, None]
            expectation_maximisation(rows, drawn, most, is_over, belongs)
            return drawn
        return model


def _dense(X: Any) -> NDArray[Any]:
    """Sparse rows as dense ones, if they have few features."""
    if X.shape[1] >= SPARSE_FEATURES:
        raise ValueError(
            f"gmm takes sparse rows of fewer than {SPARSE_FEATURES} features only, and these have {X.shape[1]}, as "
            "those of texts do: take another algorithm"
        )
    return np.asarray(X.toarray())
