"""Bayesian Sets."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from solver.estimators._base import SHARED_CONSTRAINTS
from solver.estimators._calibration import LabeledSplit
from solver.estimators._guard import Mode
from solver.estimators._positive_unlabelled import PositiveUnlabelledClassifier, comparable, must_end
from solver.estimators._run import Expansion, FitCallback, TrainingRun
from solver.estimators._tuning import Tune
from solver.operating_point import Objective, ThresholdRule
from solver.positive_unlabelled import Ranked, rank_by_set, rank_by_spies
from solver.positive_unlabelled.bayesian_sets import STRENGTHS
from solver.positive_unlabelled.spies import Cut

_C = Interval(Real, 0.0, None, closed="neither")
_SHARE = Interval(Real, 0.0, 1.0, closed="both")
# below that, where a spy comes says too little about the share of positives
_FEWEST_SPIES = 10


class BayesianSets(PositiveUnlabelledClassifier):
    """Ranks rows by how well they go together with the positive ones, compared with all rows: no training, one pass.

    The scores are those of Bayesian Sets up to a factor and a constant, which make 0 the cut and the standard deviation
    of the unlabelled rows the unit.

    Parameters
    ----------
    c : float, default 2.0
        Strength of the prior. 2 is the authors'; for texts 50 was measured to be much better: see `SpyBayesianSets`.
    positive_share : float, optional
        Share of the unlabelled rows to claim; None takes that of the positives among the labelled rows.
    tune, mode
        As in `SelfTraining`.
    objective, threshold_rule, labeled_split, positive, unlabeled
        As in `SVM`. `threshold_rule="zero"` with `labeled_split="full"` is the method by itself.
    kernel, C, gamma, degree, coef0, tol, max_iter, cache_size, device, class_weight
        Of the SVM on the labelled rows that stands beside the method (`mode`), as in `SVM`.
    max_seconds, random_state, callback
        As in `SVM`.

    Attributes
    ----------
    classes_, threshold_, status_, status_reason_, report_, control_states_, n_features_in_, feature_names_in_, n_iter_
        As in `SVM`.

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

    _algorithm: ClassVar[str] = "bayesian-sets"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SHARED_CONSTRAINTS,
        "c": [_C],
        "positive_share": [None, _SHARE],
    }

    def __init__(
        self,
        *,
        c: float = 2.0,
        positive_share: float | None = None,
        objective: str | Mapping[str, Any] | Objective = "f1",
        threshold_rule: ThresholdRule = "f1max",
        labeled_split: LabeledSplit = "xfit",
        tune: Tune = "none",
        mode: Mode = "method",
        positive: Any = None,
        unlabeled: Any = None,
        kernel: str = "rbf",
        C: float = 1.0,
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
        max_iter: int = -1,
        max_seconds: float | None = None,
        cache_size: float | None = None,
        device: str = "auto",
        class_weight: Any = None,
        random_state: Any = None,
        callback: FitCallback | None = None,
    ) -> None:
        self.c = c
        self.positive_share = positive_share
        self.objective = objective
        self.threshold_rule = threshold_rule
        self.labeled_split = labeled_split
        self.tune = tune
        self.mode = mode
        self.positive = positive
        self.unlabeled = unlabeled
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.cache_size = cache_size
        self.device = device
        self.class_weight = class_weight
        self.random_state = random_state
        self.callback = callback

    def _separate(
        self, run: TrainingRun, positive: NDArray[np.intp], unlabelled: NDArray[np.intp], share: float | None
    ) -> Expansion:
        share = share if self.positive_share is None else self.positive_share
        if share is None:
            raise ValueError("positive_share is needed where no negative row is labelled, or SpyBayesianSets")
        return _tell(run, rank_by_set(run.X, positive, unlabelled, share, c=self.c))


class SpyBayesianSets(PositiveUnlabelledClassifier):
    """Bayesian Sets whose prior and cut are chosen by positive rows that are hidden among the unlabelled ones.

    Parameters
    ----------
    c : float or "spies", default "spies"
        Strength of the prior; `spies`: which of 2, 10, 50 and 200 ranks left-out positive rows highest.
    cut : {"lee-liu", "prior", "share"}, default "lee-liu"
        How much of the ranking is claimed, where score 0 is: where the square of the spies' recall over the claimed
        share is largest; the share of positives that the spies show at least; or their share of the labelled rows,
        which also serves where there are fewer than ten positive rows.
    tune, mode
        As in `SelfTraining`.
    objective, threshold_rule, labeled_split, positive, unlabeled
        As in `SVM`. `threshold_rule="zero"` with `labeled_split="full"` is the method by itself.
    kernel, C, gamma, degree, coef0, tol, max_iter, cache_size, device, class_weight
        Of the SVM on the labelled rows that stands beside the method (`mode`), as in `SVM`.
    max_seconds, random_state, callback
        As in `SVM`.

    Attributes
    ----------
    classes_, threshold_, status_, status_reason_, report_, control_states_, n_features_in_, feature_names_in_, n_iter_
        As in `SVM`.

    Notes
    -----
    See `BayesianSets`. The share of positives that spies estimate was measured to be off by .4 with 10 positive rows
    and by .1 or less from 30 on.

    References
    ----------
    Lee and Liu, "Learning with positive and unlabeled examples using weighted logistic regression", ICML 2003.
    """

    _algorithm: ClassVar[str] = "bayesian-sets"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SHARED_CONSTRAINTS,
        "c": [_C, StrOptions({"spies"})],
        "cut": [StrOptions({"lee-liu", "prior", "share"})],
    }

    def __init__(
        self,
        *,
        c: float | str = "spies",
        cut: Cut | Literal["share"] = "lee-liu",
        objective: str | Mapping[str, Any] | Objective = "f1",
        threshold_rule: ThresholdRule = "f1max",
        labeled_split: LabeledSplit = "xfit",
        tune: Tune = "none",
        mode: Mode = "method",
        positive: Any = None,
        unlabeled: Any = None,
        kernel: str = "rbf",
        C: float = 1.0,
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
        max_iter: int = -1,
        max_seconds: float | None = None,
        cache_size: float | None = None,
        device: str = "auto",
        class_weight: Any = None,
        random_state: Any = None,
        callback: FitCallback | None = None,
    ) -> None:
        self.c = c
        self.cut = cut
        self.objective = objective
        self.threshold_rule = threshold_rule
        self.labeled_split = labeled_split
        self.tune = tune
        self.mode = mode
        self.positive = positive
        self.unlabeled = unlabeled
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.cache_size = cache_size
        self.device = device
        self.class_weight = class_weight
        self.random_state = random_state
        self.callback = callback

    def _separate(
        self, run: TrainingRun, positive: NDArray[np.intp], unlabelled: NDArray[np.intp], share: float | None
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
            is_over=lambda: must_end(run),
        )
        if share is not None and (self.cut == "share" or len(positive) < _FEWEST_SPIES):
            ranked = ranked.cut_at(share)
        return _tell(run, ranked)


def _tell(run: TrainingRun, ranked: Ranked) -> Expansion:
    """The ranking as a model, and a line of the report."""
    told = {"c": ranked.c, "share": ranked.share, "claimed": int(np.count_nonzero(ranked.claimed))}
    if ranked.spies is not None:
        told["spies_auc"] = ranked.spies.auc
    run.trace.append(told)
    run.iterations += 1
    return comparable(ranked.plane, ranked.scores, ranked.claimed)
