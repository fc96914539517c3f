"""Bayesian Sets: how much better items go together with a few given ones than by themselves.

Ghahramani and Heller, "Bayesian sets", NIPS 2005. Their items are binary. Here a column may have any values: one that
is mostly 0 and never below, as the weights of a term are, is divided by the mean of its other values; any other one is
moved to [0, 1] by its range over the items. Either leaves 0 and 1 as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from solver.planes import Plane, feature_statistics, indicator, products, row_lengths, weighted_sums
from solver.positive_unlabelled.spies import Cut, SpyRanks, groups_of_positives, retained_share, spy_ranks
from solver.typing import BoolArray, FloatArray, IndexArray, Matrix

# what spies choose from
STRENGTHS: Final = (2.0, 10.0, 50.0, 200.0)
EXPONENTS: Final = (0.0, 2.0)


class Items:
    """All items, from which the prior comes.

    Parameters
    ----------
    X : dense or CSR matrix
    rows : int array
        Which rows are the items.
    """

    def __init__(self, X: Matrix, rows: IndexArray) -> None:
        self.X = X
        self.rows = rows
        columns = feature_statistics(X, rows)
        is_term = columns.varies & (columns.low == 0) & (2 * columns.nonzero < len(rows))
        # the range, which one row sets, was measured to rank texts much worse (tf-idf: AUC .86 and .90 for .92 and .97)
        self._low = columns.low
        self._span = np.where(is_term, columns.sums / np.maximum(columns.nonzero, 1), columns.span)
        self._mean = self._scaled_sums(rows) / len(rows)
        # a column that is all 0 or all 1 says nothing, and its prior would have no mass
        self._used = columns.varies & (self._mean > 0) & (self._mean < 1)

    def _scaled_sums(self, rows: IndexArray) -> FloatArray:
        sums = weighted_sums(self.X, indicator(int(self.X.shape[0]), rows))
        scaled = (sums - len(rows) * self._low) / self._span
        return np.clip(scaled, 0.0, len(rows))  # against rounding, and values of a term that are far above its mean

    def plane(self, query: IndexArray, c: float) -> Plane:
        """Logarithm of p(x | query) / p(x), which is linear in x.

        Parameters
        ----------
        query : int array
            Rows that belong to the set, at least one.
        c : float
            Strength of the prior, greater than 0.
        """
        n, used = len(query), self._used
        s, m = self._scaled_sums(query)[used], self._mean[used]
        alpha, beta = c * m, c * (1 - m)
        without = np.log1p((n - s) / beta)
        q = np.log1p(s / alpha) - without
        constant = float(np.sum(without - np.log1p(n / c)))
        weights = np.zeros(len(used))
        weights[used] = q / self._span[used]
        return Plane(weights, constant - float(np.sum(self._low[used] * weights[used])))

    def scores(self, plane: Plane, exponent: float = 0.0) -> FloatArray:
        """Scores of all rows of X; with an exponent, x · weights over that power of the row's Euclidean length."""
        if exponent == 0:
            return plane.scores(self.X)
        scores: FloatArray = products(self.X, plane.weights) / row_lengths(self.X) ** exponent
        return scores


@dataclass(frozen=True)
class Ranked:
    """A ranking of the unlabelled rows and where it is cut.

    Attributes
    ----------
    plane : Plane
    c, exponent : float
    scores : float64 array
        Of the unlabelled rows, in their order.
    share : float
        Of the unlabelled rows that are claimed.
    claimed : bool array
        Those with the highest scores, in the order of the unlabelled rows.
    spies : SpyRanks or None
        What the cut rests on, if it was chosen by spies.
    """

    plane: Plane
    c: float
    exponent: float
    scores: FloatArray
    share: float
    claimed: BoolArray
    spies: SpyRanks | None = None

    def cut_at(self, share: float) -> Ranked:
        """The same ranking with another share claimed."""
        claimed = np.zeros(len(self.scores), dtype=bool)
        claimed[np.argsort(-self.scores, kind="stable")[: round(share * len(self.scores))]] = True
        return replace(self, share=share, claimed=claimed)


def rank_by_set(
    X: Matrix,
    positive: IndexArray,
    unlabelled: IndexArray,
    share: float,
    *,
    c: float = 2.0,
    exponent: float = 0.0,
) -> Ranked:
    """Rank the unlabelled rows by the positive ones and claim a share that is known.

    Parameters
    ----------
    X : dense or CSR matrix
    positive, unlabelled : int arrays
        Rows, at least one of each.
    share : float
        From 0 to 1.
    c : float, default 2.0
        Strength of the prior. 2 suits films by genre; for texts 50 was measured to be better.
    exponent : float, default 0.0
        Scores over this power of the row's length: 2 takes the advantage from long texts, at the cost of scores that
        are not linear.
    """
    items = Items(X, np.union1d(positive, unlabelled))
    plane = items.plane(positive, c)
    return _cut(items, plane, c, exponent, unlabelled, share)


def rank_by_spies(
    X: Matrix,
    positive: IndexArray,
    unlabelled: IndexArray,
    *,
    strengths: Sequence[float] = STRENGTHS,
    exponents: Sequence[float] = EXPONENTS,
    cut: Cut = "lee-liu",
    seed: int = 0,
    is_over: Callable[[], bool] = lambda: False,
    groups: IndexArray | None = None,
) -> Ranked:
    """Rank the unlabelled rows; prior strength, power of the length and cut are chosen by positive rows left out.

    Parameters
    ----------
    positive : int array
        At least two rows. Below ten a known share serves better: `rank_by_set`.
    strengths, exponents : sequences of float
        What there is to choose from: the pair that ranks spies highest among the unlabelled rows.
    cut : {"lee-liu", "prior"}
        See `retained_share`.
    seed : int
        Of the folds.
    is_over : callable
        Asked before each fold of all but the first pair whether to end with what there is.
    groups : int array, optional
        Number of the group that each row of X belongs to; what belongs together, or is the same, is left out together.
    """
    items = Items(X, np.union1d(positive, unlabelled))
    together = groups_of_positives(X, positive, groups)
    best: tuple[SpyRanks, float, float] | None = None
    for c in strengths:
        for exponent in exponents:
            if best is not None and is_over():
                break

            def score(query: IndexArray, c: float = c, exponent: float = exponent) -> FloatArray:
                return items.scores(items.plane(query, c), exponent)

            ranks = spy_ranks(score, positive, unlabelled, seed, together)
            if best is None or ranks.auc > best[0].auc:
                best = ranks, c, exponent
    if best is None:
        raise ValueError("there is no strength or no exponent to choose from")
    ranks, c, exponent = best
    share = retained_share(ranks.above, len(unlabelled), cut)
    return _cut(items, items.plane(positive, c), c, exponent, unlabelled, share, ranks)


def _cut(
    items: Items,
    plane: Plane,
    c: float,
    exponent: float,
    unlabelled: IndexArray,
    share: float,
    spies: SpyRanks | None = None,
) -> Ranked:
    scores = items.scores(plane, exponent)[unlabelled]
    nothing = np.zeros(len(scores), dtype=bool)
    return Ranked(plane, c, exponent, scores, 0.0, nothing, spies).cut_at(share)
