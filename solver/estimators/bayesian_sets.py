"""Bayesian Sets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from solver.algorithms import ALGORITHMS, SEMI_SUPERVISED
from solver.choices import CutRule
from solver.estimators._expansion import Expansion
from solver.estimators._positive_unlabelled import PositiveUnlabelledClassifier, in_standard_deviations, should_stop
from solver.estimators._run import TrainingRun
from solver.estimators.parameters import CostParameters, PositiveShareParameter
from solver.parameters import POSITIVE, Domain, number
from solver.positive_unlabelled.bayesian_sets import STRENGTHS, Ranked, rank_by_set, rank_by_spies
from solver.typing import IndexArray

# below that, where a spy comes says too little about the share of positives
_FEWEST_SPIES: Final = 10


@dataclass(kw_only=True, eq=False, repr=False)
class BayesianSets(CostParameters, PositiveUnlabelledClassifier):
    """Ranks rows by how well they go together with the positive ones, compared with all rows: no training, one pass.

    The scores are those of Bayesian Sets up to a factor and a constant, which make 0 the cut and the standard deviation
    of the unlabelled rows the unit.

    Parameters
    ----------
    c : float, default 2.0
        Strength of the prior. 2 is the authors'; for texts 50 was measured to be much better: see `SpyBayesianSets`.
    positive_share : float, optional
        Share of the unlabelled rows to claim; None takes that of the positives among the labelled rows.

    Other Parameters
    ----------------
    kernel, C, tune, gamma, degree, coef0, tol, max_iter, cache_size, device, class_weight
        Of the SVM on the labelled rows that stands beside the method (`mode`).

    See Also
    --------
    solver.estimators.parameters : Parameters that classifiers share, and the attributes of a fitted one.

    Notes
    -----
    The method takes features of 0 and 1. Of others, one that is mostly 0 and never below, as the weights of a term are,
    is divided by the mean of its other values; the rest are moved to [0, 1] by their range over the positive and
    unlabelled rows, so an outlier squeezes its column. Labelled negative rows have no part in the ranking. Scores over
    the length of the row, which suit long texts, are not linear, and so not what a model file holds; rows that have
    been divided by their length do instead.

    References
    ----------
    Ghahramani and Heller, "Bayesian sets", NIPS 2005.
    """

    declaration: ClassVar = replace(
        ALGORITHMS["bayesian-sets"],
        estimator="solver.estimators:BayesianSets",
        parameters=(
            *SEMI_SUPERVISED,
            number("c", 2.0, 1e-6, 1e6, POSITIVE, "Strength of the prior."),
            number("positive_share", None, 0, 1, Domain(0, 1, "both"), "Share of the unlabelled rows to claim."),
        ),
    )

    c: float = declaration.defaults["c"]
    positive_share: float | None = declaration.defaults["positive_share"]

    def _separate(
        self, run: TrainingRun, positive: IndexArray, unlabelled: IndexArray, share: float | None
    ) -> Expansion:
        share = share if self.positive_share is None else self.positive_share
        if share is None:
            raise ValueError("positive_share is needed where no negative row is labelled, or SpyBayesianSets")
        return _tell(run, rank_by_set(run.X, positive, unlabelled, share, c=self.c))


@dataclass(kw_only=True, eq=False, repr=False)
class SpyBayesianSets(CostParameters, PositiveShareParameter, PositiveUnlabelledClassifier):
    """Bayesian Sets whose prior and cut are chosen by positive rows that are hidden among the unlabelled ones.

    Parameters
    ----------
    c : float or "spies", default "spies"
        Strength of the prior; `spies`: which of 2, 10, 50 and 200 ranks left-out positive rows highest.
    cut : {"lee-liu", "prior", "share"}, default "lee-liu"
        How much of the ranking is claimed, where score 0 is: where the square of the spies' recall over the claimed
        share is largest; the share of positives that the spies show at least; or their share of the labelled rows,
        which also serves where there are fewer than ten positive rows.

    Other Parameters
    ----------------
    kernel, C, tune, gamma, degree, coef0, tol, max_iter, cache_size, device, class_weight
        Of the SVM on the labelled rows that stands beside the method (`mode`).

    See Also
    --------
    solver.estimators.parameters : Parameters that classifiers share, and the attributes of a fitted one.

    Notes
    -----
    See `BayesianSets`. The share of positives that spies estimate was measured to be off by .4 with 10 positive rows
    and by .1 or less from 30 on.

    References
    ----------
    Lee and Liu, "Learning with positive and unlabeled examples using weighted logistic regression", ICML 2003.
    """

    declaration: ClassVar = ALGORITHMS["bayesian-sets"]

    c: float | str = declaration.defaults["c"]
    cut: CutRule = declaration.defaults["cut"]

    def _separate(
        self, run: TrainingRun, positive: IndexArray, unlabelled: IndexArray, share: float | None
    ) -> Expansion:
        strengths = STRENGTHS if isinstance(self.c, str) else (float(self.c),)
        if share is None and (len(positive) < 2 or self.cut == "share"):
            raise ValueError(
                "where no negative row is labelled, 2 positive rows are needed and another cut than 'share'"
            )
        if share is not None and len(positive) < 2:
            return _tell(run, rank_by_set(run.X, positive, unlabelled, share, c=strengths[0]))
        ranked = rank_by_spies(
            run.X,
            positive,
            unlabelled,
            strengths=strengths,
            exponents=(0.0,),
            cut="lee-liu" if self.cut == "share" else self.cut,
            seed=run.seed,
            is_over=lambda: should_stop(run),
            groups=run.groups,
        )
        if share is not None and (self.cut == "share" or len(positive) < _FEWEST_SPIES):
            ranked = ranked.cut_at(share)
        return _tell(run, ranked)


def _tell(run: TrainingRun, ranked: Ranked, rounds: int = 1) -> Expansion:
    """The ranking as a model, and a line of the report."""
    entry = {"c": ranked.c, "share": ranked.share, "claimed": int(np.count_nonzero(ranked.claimed))}
    if ranked.spies is not None:
        entry["spies_auc"] = ranked.spies.auc
    run.trace.append(entry)
    run.iterations += rounds
    return in_standard_deviations(ranked.plane, ranked.scores, ranked.claimed, rounds)
