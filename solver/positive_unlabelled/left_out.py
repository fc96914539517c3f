"""What scores of left-out rows tell where no negative row is labelled: of which share of either kind lies above a line.

Positive and unlabelled rows are left out alike, so that both kinds of scores are those of rows that a model has not
seen. Rows that are equal, or belong together, are left out together: a copy would give the other one away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from solver.labelled_rows import fingerprints
from solver.row_groups import joined_groups
from solver.typing import FloatArray, IndexArray, Matrix

FOLDS: Final = 5
_MOST_SCORED: Final = 10_000
"""Unlabelled rows that are left out and scored: their share above a line is then known to half a percent."""
_MOST_POINTS: Final = 200


@dataclass(frozen=True)
class LeftOutScores:
    """Scores of rows by models that had not learned from them.

    Attributes
    ----------
    positive, unlabelled : float64 arrays
    copies : int
        Unlabelled rows that are the same as a positive one.
    """

    positive: FloatArray
    unlabelled: FloatArray
    copies: int = 0

    @property
    def auc(self) -> float:
        """Chance that a positive row scores higher than an unlabelled one, equal ones for a half."""
        ordered = np.sort(self.unlabelled)
        below = np.searchsorted(ordered, self.positive, side="left")
        upto = np.searchsorted(ordered, self.positive, side="right")
        return float(np.mean(below + upto) / (2 * len(ordered)))


@dataclass(frozen=True)
class FoundCurve:
    """What lies above each of some thresholds.

    Attributes
    ----------
    thresholds : float64 array
        Descending; each lies between two different scores, or beyond all of them.
    found, called : int arrays
        Left-out positive, and left-out unlabelled rows with a score strictly above it.
    positives, unlabelled : int
        How many there are of each.
    """

    thresholds: FloatArray
    found: IndexArray
    called: IndexArray
    positives: int
    unlabelled: int

    @classmethod
    def of(cls, scores: LeftOutScores, also: Sequence[float] = ()) -> FoundCurve:
        """The curve with a threshold below each positive row, of many of them 200 evenly spread ones, and these."""
        positive, unlabelled = np.sort(scores.positive), np.sort(scores.unlabelled)
        every = np.unique(np.concatenate([positive, unlabelled]))
        places = np.searchsorted(every, np.unique(positive)[::-1])
        if len(places) > _MOST_POINTS:
            places = places[np.unique(np.linspace(0, len(places) - 1, _MOST_POINTS).round().astype(np.intp))]
        step = max(1.0, abs(float(every[0])))
        below = np.concatenate([[every[0] - step], every])[places]
        thresholds = below + (every[places] - below) / 2
        thresholds = np.where(thresholds < every[places], thresholds, below)  # neighbours among the floats
        return cls.at(scores, np.unique(np.concatenate([thresholds, also]))[::-1])

    @classmethod
    def at(cls, scores: LeftOutScores, thresholds: FloatArray) -> FoundCurve:
        """The curve of these thresholds, which descend."""
        positive, unlabelled = np.sort(scores.positive), np.sort(scores.unlabelled)
        found = len(positive) - np.searchsorted(positive, thresholds, side="right")
        called = len(unlabelled) - np.searchsorted(unlabelled, thresholds, side="right")
        return cls(thresholds, found, called, len(positive), len(unlabelled))


def left_out_scores(
    X: Matrix,
    positive: IndexArray,
    unlabelled: IndexArray,
    train: Callable[[IndexArray, IndexArray], Callable[[IndexArray], FloatArray] | None],
    seed: int,
    groups: IndexArray | None = None,
) -> LeftOutScores | None:
    """Score rows by models that left them out, in 5 folds or, of fewer positive rows, in as many as there are of those.

    Parameters
    ----------
    X : dense or CSR matrix
    positive, unlabelled : int arrays
        Rows that are measured on, at least two of each.
    train : callable
        Gets the rows of both that a fold is trained on; returns what scores rows, or None to end without a result.
    seed : int
        Of the folds, and of the unlabelled rows that are scored, if there are more than 10,000.
    groups : int array, optional
        Number of the group that each row of X belongs to.

    Returns
    -------
    LeftOutScores or None
        None where training ended before all folds were scored, or all rows are copies of too few different ones.
    """
    rng = np.random.default_rng(seed)
    prints = fingerprints(X, np.concatenate([positive, unlabelled]))
    _, same = np.unique(prints, return_inverse=True)
    copies = int(np.count_nonzero(np.isin(same[len(positive) :], same[: len(positive)])))
    group = same
    if groups is not None:
        group = joined_groups(same, groups[np.concatenate([positive, unlabelled])])
    of_positive, of_unlabelled = group[: len(positive)], group[len(positive) :]
    has_positive = np.zeros(group.max() + 1, dtype=bool)
    has_positive[of_positive] = True
    fold_of_kind = np.empty(len(has_positive), dtype=np.intp)
    count = min(FOLDS, int(np.count_nonzero(has_positive)))
    for those in (np.flatnonzero(has_positive), np.flatnonzero(~has_positive)):
        fold_of_kind[rng.permutation(those)] = np.arange(len(those)) % max(count, 1)
    positive_fold, unlabelled_fold = fold_of_kind[of_positive], fold_of_kind[of_unlabelled]
    if count < 2 or np.ptp(unlabelled_fold) == 0:
        return None
    scored = np.sort(rng.permutation(len(unlabelled))[:_MOST_SCORED])
    scores = LeftOutScores(np.empty(len(positive)), np.empty(len(scored)), copies)
    for number in range(count):
        score = train(positive[positive_fold != number], unlabelled[unlabelled_fold != number])
        if score is None:
            return None
        out, among = positive_fold == number, unlabelled_fold[scored] == number
        scores.positive[out] = score(positive[out])
        scores.unlabelled[among] = score(unlabelled[scored[among]])
    return scores
