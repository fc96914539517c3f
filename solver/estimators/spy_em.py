"""Spy-EM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from solver.algorithms import ALGORITHMS
from solver.choices import NoiseOf, PosteriorLabels
from solver.estimators._expansion import Expansion
from solver.estimators._positive_unlabelled import PositiveUnlabelledClassifier, in_standard_deviations, should_stop
from solver.estimators._run import TrainingRun
from solver.estimators.parameters import CostParameters, PositiveShareParameter
from solver.positive_unlabelled.spy_em import spy_em
from solver.typing import IndexArray


@dataclass(kw_only=True, eq=False, repr=False)
class SpyEM(CostParameters, PositiveShareParameter, PositiveUnlabelledClassifier):
    """Naive Bayes, made sure of reliable negatives by spies and of all labels by expectation maximisation.

    The scores are log-odds of multinomial naive Bayes in standard deviations of those of the unlabelled rows.

    Parameters
    ----------
    spies : float, default 0.1
        Share of the positive rows that are hidden among the unlabelled ones, at least one.
    noise : float, default 0.15
        An unlabelled row is a reliable negative if it scores no higher than this share of the rows in `noise_of`.
    noise_of : {"spies", "unlabelled"}, default "spies"
        `spies` is the authors' choice.
    labels : {"soft", "hard"}, default "soft"
        Whether a row belongs to both classes by its posterior, or to the likelier one alone.

    Other Parameters
    ----------------
    kernel, C, tune, gamma, degree, coef0, tol, max_iter, cache_size, device, class_weight
        Of the SVM on the labelled rows that stands beside the method (`mode`).

    See Also
    --------
    solver.estimators.parameters : Parameters that classifiers share, and the attributes of a fitted one.

    Notes
    -----
    Columns without negative values are taken for counts; unless they are whole numbers, in units of the mean of those
    that are not 0. Others are moved to [0, 1] by their range, and stand for two
    counts, the scaled value and what it lacks to 1. Labelled negative rows have no part in the learning.

    With few positive rows among many unlabelled ones the maximisation ends with no positives at all: of texts it took
    100 to 300 positive rows among 1,200 to 2,500.

    References
    ----------
    Liu, Lee, Yu and Li, "Partially supervised classification of text documents", ICML 2002.
    """

    declaration: ClassVar = ALGORITHMS["spy-em"]

    spies: float = declaration.defaults["spies"]
    noise: float = declaration.defaults["noise"]
    noise_of: NoiseOf = declaration.defaults["noise_of"]
    labels: PosteriorLabels = declaration.defaults["labels"]

    def _separate(
        self, run: TrainingRun, positive: IndexArray, unlabelled: IndexArray, share: float | None
    ) -> Expansion:
        del share
        found = spy_em(
            run.X,
            positive,
            unlabelled,
            spies=self.spies,
            noise=self.noise,
            noise_of=self.noise_of,
            hard=self.labels == "hard",
            seed=run.seed,
            is_over=lambda: should_stop(run),
        )
        entry: dict[str, Any] = {
            "reliable_negatives": int(np.count_nonzero(found.negative)),
            "rounds": found.rounds,
            "claimed": int(np.count_nonzero(found.claimed)),
        }
        if found.failed:
            entry["warning"] = "No unlabelled row was a reliable negative: the method claims all of them."
        elif not found.claimed.any():
            entry["warning"] = "Expectation maximisation ended with no positives: too few positive rows for Spy-EM."
        run.trace.append(entry)
        run.iterations += found.rounds
        # Log-odds far on one side of 0 tell little but how many positive rows there were: where all rows are on one
        # side, folds that leave out more positive ones would differ by that from the others.
        one_sided = bool(found.claimed.all()) or not found.claimed.any()
        return in_standard_deviations(found.plane, found.log_odds, found.claimed if one_sided else None, found.rounds)
