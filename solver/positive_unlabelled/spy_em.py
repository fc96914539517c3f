"""Spy-EM: naive Bayes, made sure of reliable negatives by spies, then of all labels by expectation maximisation.

Liu, Lee, Yu and Li, "Partially supervised classification of text documents", ICML 2002.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import expit

from solver.choices import NoiseOf
from solver.planes import Plane, feature_statistics, indicator, weighted_sums
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix

_MOST_ROUNDS: Final = 30
_SETTLED: Final = 1e-3
_LEAST_PRIOR: Final = 1e-12


class NaiveBayes:
    """Multinomial naive Bayes with Laplace's correction, for rows that belong to a class by parts.

    Columns without a negative value are counts; unless all are whole numbers, in units of the mean of those that are
    not 0, so that a term of tf-idf counts about once. A column with negative values is moved to [0, 1] by its range and
    stands for two counts, the scaled value and what it lacks to 1.

    Parameters
    ----------
    X : dense or CSR matrix
    rows : int array
        Rows that are looked at.
    """

    def __init__(self, X: Matrix, rows: IndexArray) -> None:
        self.X = X
        columns = feature_statistics(X, rows)
        self._scaled = columns.varies & (columns.low < 0)
        self._counts = columns.low >= 0
        self._low = np.where(self._scaled, columns.low, 0.0)
        unit = 1.0
        if not columns.whole[self._counts].all():
            unit = float(np.sum(columns.sums[self._counts]) / np.sum(columns.nonzero[self._counts]))
        self._span = np.where(self._scaled, columns.span, unit)

    def fit(self, positive: FloatArray, negative: FloatArray) -> Plane:
        """Log-odds of the positive class.

        Parameters
        ----------
        positive, negative : float64 arrays of shape (n,)
            To which part each row belongs to either class, at least 0; 0 in both for a row that is not looked at.
        """
        of_positive, lacking_positive = self._log_probabilities(positive)
        of_negative, lacking_negative = self._log_probabilities(negative)
        of, lacking = of_positive - of_negative, lacking_positive - lacking_negative
        weights = (of - lacking) / self._span
        prior = float(np.sum(positive) / (np.sum(positive) + np.sum(negative)))
        prior = min(max(prior, _LEAST_PRIOR), 1 - _LEAST_PRIOR)
        constant = float(np.sum(lacking) - np.sum(self._low * weights)) + np.log(prior / (1 - prior))
        return Plane(weights, float(constant))

    def _log_probabilities(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of each column's counts, and of what scaled columns lack to 1 (0 for others)."""
        total = float(np.sum(weights))
        sums = (weighted_sums(self.X, weights) - total * self._low) / self._span
        seen = np.where(self._counts | self._scaled, np.maximum(sums, 0.0), 0.0) + 1.0
        lacking = np.where(self._scaled, np.maximum(total - sums, 0.0) + 1.0, 0.0)
        log_all = np.log(np.sum(seen) + np.sum(lacking))
        return (
            np.where(self._counts | self._scaled, np.log(seen) - log_all, 0.0),
            np.where(self._scaled, np.log(np.where(self._scaled, lacking, 1.0)) - log_all, 0.0),
        )


@dataclass(frozen=True)
class Separated:
    """What Spy-EM gives.

    Attributes
    ----------
    plane : Plane
        Log-odds of the positive class.
    log_odds : float64 array
        Of the unlabelled rows, in their order.
    claimed : bool array
        Unlabelled rows that are more likely positive than not; all of them when it failed.
    negative : bool array
        Unlabelled rows that the spies showed to be reliable negatives.
    rounds : int
        Of both expectation maximisations.
    failed : bool
        Whether there were no reliable negatives; the plane is then that of the positive against the unlabelled rows.
    """

    plane: Plane
    log_odds: FloatArray
    claimed: BoolArray
    negative: BoolArray
    rounds: int
    failed: bool


def spy_em(
    X: Matrix,
    positive: IndexArray,
    unlabelled: IndexArray,
    *,
    spies: float = 0.1,
    noise: float = 0.15,
    noise_of: NoiseOf = "spies",
    hard: bool = False,
    seed: int = 0,
    is_over: Callable[[], bool] = lambda: False,
) -> Separated:
    """Tell positive from negative rows among the unlabelled ones.

    Parameters
    ----------
    X : dense or CSR matrix
        See `NaiveBayes`.
    positive, unlabelled : int arrays
        Rows, at least one of each. With a single positive row there are no spies, and `noise` is of the unlabelled
        rows.
    spies : float, default 0.1
        Share of the positive rows that are hidden among the unlabelled ones, at least one.
    noise : float, default 0.15
        An unlabelled row is a reliable negative if it scores no higher than this share of the rows that `noise_of`
        names.
    noise_of : {"spies", "unlabelled"}
        `spies` as in the paper; `unlabelled` with 0.2 gives what Table 4.2 of the dissertation on data augmentation
        with Bayesian sets prints.
    hard : bool, default False
        Whether posteriors are rounded to 0 or 1 in each round.
    seed : int
        Of the choice of the spies.
    is_over : callable
        Asked before each round whether to end.
    """
    model = NaiveBayes(X, np.union1d(positive, unlabelled))
    known = indicator(int(X.shape[0]), positive)
    hidden = np.zeros(0, dtype=np.intp)
    if len(positive) > 1:
        count = min(len(positive) - 1, max(1, round(spies * len(positive))))
        hidden = np.random.default_rng(seed).permutation(np.sort(positive))[:count]
    suspects = np.concatenate([unlabelled, hidden])
    visible = known.copy()
    visible[hidden] = 0.0
    plane, rounds = _maximise(model, visible, suspects, np.zeros(len(suspects)), hard, is_over)
    log_odds = plane.scores(X)
    measure = log_odds[hidden] if noise_of == "spies" and len(hidden) else log_odds[unlabelled]
    limit = np.quantile(measure, noise, method="inverted_cdf")
    negative = log_odds[unlabelled] <= limit
    if not negative.any():
        plane = model.fit(known, indicator(len(known), unlabelled))
        scores = plane.scores(X)[unlabelled]
        return Separated(plane, scores, np.ones(len(unlabelled), dtype=bool), negative, rounds, failed=True)
    first = model.fit(known, indicator(len(known), unlabelled[negative]))
    start = _posteriors(first, X, unlabelled, hard)
    plane, more = _maximise(model, known, unlabelled, start, hard, is_over)
    scores = plane.scores(X)[unlabelled]
    return Separated(plane, scores, scores > 0, negative, rounds + more, failed=False)


def _maximise(
    model: NaiveBayes,
    known: FloatArray,
    free: IndexArray,
    start: FloatArray,
    hard: bool,
    is_over: Callable[[], bool],
) -> tuple[Plane, int]:
    """Fit and label the free rows in turn, until their labels stay; those known to be positive are never relabelled.

    The first fit is made in any case.
    """
    posterior = start
    for rounds in range(1, _MOST_ROUNDS + 1):  # noqa: B007
        positive, negative = known.copy(), np.zeros(len(known))
        positive[free], negative[free] = posterior, 1 - posterior
        plane = model.fit(positive, negative)
        before, posterior = posterior, _posteriors(plane, model.X, free, hard)
        if np.mean(np.abs(posterior - before)) < _SETTLED or is_over():
            break
    return plane, rounds


def _posteriors(plane: Plane, X: Matrix, rows: IndexArray, hard: bool) -> FloatArray:
    log_odds = plane.scores(X)[rows]
    posteriors: FloatArray = (log_odds > 0).astype(np.float64) if hard else expit(log_odds)
    return posteriors
