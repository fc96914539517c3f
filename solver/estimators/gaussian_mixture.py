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
from solver.typing import FloatArray, IndexArray, Matrix


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
    Of several classes, each pair's Gaussians are fitted to its own labelled rows and to the unlabelled rows as far as
    these are of the pair, by one expectation maximisation for all classes before (`class_memberships`).

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
        groups: ArrayLike | None = None,
        *,
        with_ruler: bool = False,
    ) -> tuple[TrainingRun, IndexArray]:
        if sparse.issparse(X):
            X = _dense(X)
        run, extra = super()._start(X, y, sample_weight, unmeasured, groups, with_ruler=with_ruler)
        _refuse_wide(run.X)
        return run, extra

    def _train(self, run: TrainingRun, labelled: IndexArray, plan: CalibrationPlan) -> Expansion:
        del plan
        rows = np.concatenate([labelled, run.unlabelled])
        weights = run.cost[rows]
        weights[len(labelled) :] *= self.unlabeled_weight
        Z, shift, scale = _standardised(run.X[rows], weights)
        with single_threaded_blas():  # the same bits on any number of threads
            fitted = self._fit(run, Rows(Z, (run.y[labelled] > 0).astype(np.intp), weights))
        run.iterations += len(run.trace)
        return Expansion.from_plane(fitted.discriminant().of_standardised(shift, scale), rounds=len(run.trace))

    def class_memberships(self, X: Matrix, codes: IndexArray, weight: FloatArray | None = None) -> FloatArray:
        """How likely each row is of each of several classes, by one expectation maximisation for all of them.

        Whoever trains two of the classes at a time needs it: the unlabelled rows of the others are of neither, and
        would draw both Gaussians away.

        Parameters
        ----------
        X : dense or CSR matrix of shape (n, d)
        codes : int array of shape (n,)
            Classes 0 and up, each in at least one row; -1 where unlabelled.
        weight : float64 array of shape (n,), optional
            What each row counts.

        Returns
        -------
        float64 array of shape (n, classes)
            Of a labelled row 1 for its class.
        """
        self._validate_params()
        _refuse_wide(X)
        labelled, unlabelled = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
        order = np.concatenate([labelled, unlabelled])
        counts = np.ones(len(codes)) if weight is None else np.array(weight, dtype=np.float64)
        counts[unlabelled] *= self.unlabeled_weight
        Z, _, _ = _standardised((_dense(X) if sparse.issparse(X) else X)[order], counts[order])
        classes = int(codes.max()) + 1
        model = self._gaussians("tied" if self.covariance == "shrunk" else self.covariance)
        with single_threaded_blas():
            rows = Rows(Z, codes[labelled], counts[order], classes)
            expectation_maximisation(rows, model, int(self.max_rounds), self._is_cancelled)
            likely = model.memberships(Z[len(labelled) :])
        memberships = np.zeros((len(codes), classes))
        memberships[labelled, codes[labelled]] = 1.0
        memberships[unlabelled] = likely
        return memberships

    def _is_cancelled(self, entry: dict[str, Any]) -> bool:
        return self.callback is not None and bool(self.callback(0.0, entry))

    def _gaussians(self, covariance: Covariance) -> Gaussians:
        """Not fitted yet."""
        ridge = float(self.ridge)
        if covariance == "diag":
            return DiagonalGaussians(ridge)
        return FullGaussians(ridge) if covariance == "full" else TiedGaussians(ridge)

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
        model = self._gaussians(self.covariance)
        expectation_maximisation(rows, model, most, is_over)
        if self.covariance == "shrunk" and isinstance(model, TiedGaussians):
            drawn = FullGaussians(ridge, model.covariance, rows.Z.shape[1])
            belongs = rows.known()
            belongs += model.memberships(rows.Z) * np.where(belongs.any(axis=1), 0.0, rows.weights)[:, None]
            expectation_maximisation(rows, drawn, most, is_over, belongs)
            return drawn
        return model


def _refuse_wide(X: Matrix) -> None:
    if X.shape[1] > MOST_GAUSSIAN_FEATURES:
        raise ValueError(f"gmm takes at most {MOST_GAUSSIAN_FEATURES} features; these are {X.shape[1]}")


def _standardised(X: Any, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rows with columns of mean 0 and variance 1, and the means and deviations."""
    Z = np.array(X, dtype=np.float64)
    shift = np.average(Z, axis=0, weights=weights)
    Z -= shift
    scale = np.sqrt(np.average(np.square(Z), axis=0, weights=weights))
    # what is left of a constant by rounding is no variance
    scale[scale <= 1e-12 * np.maximum(np.abs(shift), 1e-300)] = 1.0
    Z /= scale
    return Z, shift, scale


def _dense(X: Any) -> NDArray[Any]:
    """Sparse rows as dense ones, if they have few features."""
    if X.shape[1] >= SPARSE_FEATURES:
        raise ValueError(
            f"gmm takes sparse rows of fewer than {SPARSE_FEATURES} features only, and these have {X.shape[1]}, as "
            "those of texts do: take another algorithm"
        )
    return np.asarray(X.toarray())
