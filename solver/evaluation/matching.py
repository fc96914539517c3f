"""Scores of one model in the terms of another, by their ranks among rows that both have scored."""

from __future__ import annotations

import numpy as np

from solver.typing import FloatArray


def matched_scores(scores: FloatArray, reference: FloatArray, common: FloatArray, resolution: float) -> FloatArray:
    """Scores that stand among `common` where the given ones stand among `reference`.

    Models of different folds have scales of their own: a threshold on the scores of one means another thing on those of
    the next. Ranks among the same rows mean the same with all of them. Between two ranks it is interpolated; a score
    beyond all of `reference` lies as far beyond all of `common`. The order of the scores is kept.

    Parameters
    ----------
    scores : float64 array of shape (n,), finite
        By one model.
    reference, common : float64 arrays of shape (m,), m >= 1, finite
        Scores of the same rows by that model and by the other one, in any order.
    resolution : float
        How accurate scores are: one that lies so near to some of `reference` takes the middle of their ranks.

    Returns
    -------
    float64 array of shape (n,)
    """
    ranked, target = np.sort(reference), np.sort(common)
    m = len(ranked)
    first = np.searchsorted(ranked, scores - resolution, side="left")
    end = np.searchsorted(ranked, scores + resolution, side="right")
    rank = (first + end - 1) / 2  # of the lowest row: 0
    between = first == end
    lower, upper = ranked[np.clip(first - 1, 0, m - 1)], ranked[np.clip(first, 0, m - 1)]
    gap = np.where(upper > lower, upper - lower, 1.0)
    rank = np.where(between, first - 1 + np.clip((scores - lower) / gap, 0.0, 1.0), rank)
    matched = np.interp(rank, np.arange(m), target)
    matched = np.where(between & (first == m), target[-1] + (scores - ranked[-1]), matched)
    return np.asarray(np.where(between & (first == 0), target[0] - (ranked[0] - scores), matched))
