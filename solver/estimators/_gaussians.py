"""Expectation maximisation for one Gaussian a class, from labelled and unlabelled rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy import linalg

from solver.estimators._quadratic import Quadratic
from solver.typing import FloatArray, IndexArray

Floats = FloatArray

_CHANGE: Final = 1e-6


class Gaussians(ABC):
    """Shares, means and covariances of all classes, which are two but where several are told apart at once.

    The covariances are those of largest posterior: `ridge` stands for a prior that adds it to their diagonal, so that
    they are regular with few rows too. What expectation maximisation never lessens is the log-likelihood with the
    logarithm of that prior.

    Parameters
    ----------
    ridge : float
    """

    shares: Floats
    means: Floats

    def __init__(self, ridge: float) -> None:
        self.ridge = ridge

    def maximise(self, Z: Floats, R: Floats) -> None:
        """Fit to rows that belong to the classes by these weights, of shape (n, classes)."""
        sizes = R.sum(axis=0)
        self.shares = sizes / sizes.sum()
        self.means = (R.T @ Z) / sizes[:, None]
        self._maximise_covariances(Z, R, sizes)

    @abstractmethod
    def _maximise_covariances(self, Z: Floats, R: Floats, sizes: Floats) -> None: ...

    @abstractmethod
    def log_joint(self, Z: Floats) -> Floats:
        """log(share · density) of each row and class, of shape (n, classes), but for what all have in common."""

    def log_common(self, Z: Floats, weights: Floats) -> float:  # noqa: ARG002  # here it is nothing
        """Sum over weighted rows of what `log_joint` leaves out."""
        return 0.0

    def memberships(self, Z: Floats) -> Floats:
        """How likely each row belongs to each class, of shape (n, classes)."""
        joint = self.log_joint(Z)
        return np.asarray(np.exp(joint - _log_either(joint)[:, None]))

    @abstractmethod
    def log_prior(self, total: float) -> float:
        """Of the covariances, but for a constant; what the ridge is worth grows with the weight of all rows."""

    @abstractmethod
    def discriminant(self) -> Quadratic:
        """Log odds of the second of two classes, as a function of the row."""


class TiedGaussians(Gaussians):
    """One covariance for all classes: the boundary is a plane."""

    _weights: Floats | None = None

    def _maximise_covariances(self, Z: Floats, R: Floats, sizes: Floats) -> None:
        within = self._scatter_of(Z, R.sum(axis=1)) - (self.means * sizes[:, None]).T @ self.means
        self.covariance = within / sizes.sum() + self.ridge * np.eye(Z.shape[1])
        self._precision, self._log_determinant = _inverse(self.covariance)

    def _scatter_of(self, Z: Floats, weights: Floats) -> Floats:
        """Σ weight · z zᵀ: of all rounds on the same rows, which only change the classes that rows belong to."""
        if self._weights is None or len(weights) != len(self._weights) or not np.allclose(weights, self._weights):
            self._weights = weights
            self._scatter = (Z * weights[:, None]).T @ Z
        return self._scatter

    def log_joint(self, Z: Floats) -> Floats:
        precise = self._precision @ self.means.T
        return np.asarray(Z @ precise + np.log(self.shares) - 0.5 * np.einsum("kd,dk->k", self.means, precise))

    def log_common(self, Z: Floats, weights: Floats) -> float:
        each: float = self._log_determinant + Z.shape[1] * math.log(2 * math.pi)
        return -0.5 * (_trace_of_product(self._precision, self._scatter_of(Z, weights)) + float(weights.sum()) * each)

    def log_prior(self, total: float) -> float:
        return -0.5 * total * self.ridge * float(np.trace(self._precision))

    def discriminant(self) -> Quadratic:
        slope = self._precision @ (self.means[1] - self.means[0])
        offset = float(np.log(self.shares[1] / self.shares[0]) - 0.5 * slope @ (self.means[0] + self.means[1]))
        return Quadratic(slope[None], np.zeros(1), np.ones(1), offset)


class FullGaussians(Gaussians):
    """A covariance for each class.

    Parameters
    ----------
    ridge : float
    prior : float64 array of shape (d, d), optional
        A covariance towards which those of the classes are drawn, as if `prior_rows` further rows of each had it.
    prior_rows : float
    """

    def __init__(self, ridge: float, prior: Floats | None = None, prior_rows: float = 0.0) -> None:
        super().__init__(ridge)
        self._drawn_to, self._prior_rows = prior, prior_rows

    def _maximise_covariances(self, Z: Floats, R: Floats, sizes: Floats) -> None:
        prior = self._prior_scatter(Z.shape[1], float(sizes.sum()))
        covariances = []
        for k in range(len(sizes)):
            apart = Z - self.means[k]
            covariances.append(((apart * R[:, k, None]).T @ apart + prior) / (sizes[k] + self._prior_rows))
        self.covariances = np.array(covariances)
        self._inverses = [_inverse(covariance) for covariance in self.covariances]

    def _prior_scatter(self, d: int, total: float) -> Floats:
        """What the prior adds to the scatter of each class."""
        scatter = self.ridge * total / len(self.means) * np.eye(d)
        return scatter if self._drawn_to is None else scatter + self._prior_rows * self._drawn_to

    def log_joint(self, Z: Floats) -> Floats:
        columns = []
        for k, (precision, log_determinant) in enumerate(self._inverses):
            apart = Z - self.means[k]
            squares = np.einsum("nd,nd->n", apart @ precision, apart)
            constant = log_determinant + Z.shape[1] * math.log(2 * math.pi)
            columns.append(np.log(self.shares[k]) - 0.5 * (squares + constant))
        return np.column_stack(columns)

    def log_prior(self, total: float) -> float:
        prior = self._prior_scatter(self.means.shape[1], total)
        return -0.5 * math.fsum(
            _trace_of_product(precision, prior) + self._prior_rows * log_determinant
            for precision, log_determinant in self._inverses
        )

    def discriminant(self) -> Quadratic:
        (of_negative, _), (of_positive, _) = self._inverses
        curvatures, vectors = linalg.eigh(0.5 * (of_negative - of_positive))
        halves = [
            np.log(self.shares[k]) - 0.5 * (self.means[k] @ precision @ self.means[k] + log_determinant)
            for k, (precision, log_determinant) in enumerate(self._inverses)
        ]
        slope = of_positive @ self.means[1] - of_negative @ self.means[0]
        return Quadratic(vectors.T, curvatures, slope @ vectors, float(halves[1] - halves[0]))


class DiagonalGaussians(Gaussians):
    """A variance for each class and column: columns are independent within a class."""

    def _maximise_covariances(self, Z: Floats, R: Floats, sizes: Floats) -> None:
        prior = self.ridge * float(sizes.sum()) / len(sizes)
        self.variances = np.array([(R[:, k] @ np.square(Z - m) + prior) / sizes[k] for k, m in enumerate(self.means)])

    def log_joint(self, Z: Floats) -> Floats:
        columns = []
        for k, mean in enumerate(self.means):
            constant = np.log(2 * np.pi * self.variances[k]).sum()
            squares = np.square(Z - mean) @ (1 / self.variances[k])
            columns.append(np.log(self.shares[k]) - 0.5 * (squares + constant))
        return np.column_stack(columns)

    def log_prior(self, total: float) -> float:
        return -0.5 * self.ridge * total / len(self.variances) * float((1 / self.variances).sum())

    def discriminant(self) -> Quadratic:
        precise = 1 / self.variances
        log_determinants = np.log(self.variances).sum(axis=1)
        halves = np.log(self.shares) - 0.5 * ((np.square(self.means) * precise).sum(axis=1) + log_determinants)
        slope = precise[1] * self.means[1] - precise[0] * self.means[0]
        return Quadratic(np.eye(len(slope)), 0.5 * (precise[0] - precise[1]), slope, float(halves[1] - halves[0]))


@dataclass(frozen=True)
class Rows:
    """What expectation maximisation learns from.

    Attributes
    ----------
    Z : float64 array of shape (n, d)
        Labelled rows first.
    codes : int array
        Classes of the labelled ones, 0 and up.
    weights : float64 array of shape (n,)
        What each row counts.
    classes : int, default 2
    """

    Z: Floats
    codes: IndexArray
    weights: Floats
    classes: int = 2

    def known(self) -> Floats:
        """What is known of the classes of all rows: their weights where labelled, else 0; of shape (n, classes)."""
        l = len(self.codes)  # noqa: E741
        known = np.zeros((len(self.Z), self.classes))
        known[np.arange(l), self.codes] = self.weights[:l]
        return known


def expectation_maximisation(
    rows: Rows,
    model: Gaussians,
    max_rounds: int,
    is_over: Callable[[dict[str, Any]], bool],
    start: Floats | None = None,
) -> list[float]:
    """Fit Gaussians to labelled rows, then to all, until the log-likelihood changes by less than a millionth.

    Parameters
    ----------
    rows : Rows
    model : Gaussians
        Is fitted.
    max_rounds : int
    is_over : callable
        Told of each round; True ends it.
    start : float64 array of shape (n, classes), optional
        Which class each row belongs to at first; what is known by default.

    Returns
    -------
    list of float
        Log-likelihood with the logarithm of the prior before each round and after the last one: it never falls.
    """
    known = rows.known()
    l = len(rows.codes)  # noqa: E741
    history: list[float] = []
    if start is None:
        model.maximise(rows.Z[:l], known[:l])
    else:
        model.maximise(rows.Z, start)
    for number in range(max_rounds + 1):
        joint = model.log_joint(rows.Z)
        either = _log_either(joint[l:])
        value = float((known[:l] * joint[:l]).sum()) + float(rows.weights[l:] @ either)
        value += model.log_common(rows.Z, rows.weights) + model.log_prior(float(rows.weights.sum()))
        history.append(value)
        converged = number > 0 and abs(value - history[-2]) <= _CHANGE * (1 + abs(value))
        if converged or number == max_rounds or is_over({"round": number, "log_likelihood": value}):
            break
        known[l:] = rows.weights[l:, None] * np.exp(joint[l:] - either[:, None])
        model.maximise(rows.Z, known)
    return history


def _log_either(joint: Floats) -> Floats:
    """The logarithm of the sum over all classes."""
    return np.asarray(np.logaddexp.reduce(joint, axis=1))


def _inverse(covariance: Floats) -> tuple[Floats, float]:
    """The inverse and the logarithm of the determinant."""
    factor = linalg.cholesky(covariance, lower=True)
    lower, _ = linalg.lapack.dpotri(factor, lower=1)
    inverse = np.tril(lower) + np.tril(lower, -1).T
    return inverse, 2 * float(np.log(np.diag(factor)).sum())


def _trace_of_product(A: Floats, B: Floats) -> float:
    """Of symmetric matrices."""
    return float(np.vdot(A, B))
