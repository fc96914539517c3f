"""Spy-EM."""

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
from solver.positive_unlabelled import spy_em
from solver.positive_unlabelled.spy_em import NoiseOf


class SpyEM(PositiveUnlabelledClassifier):
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
    Columns without negative values are taken for counts; unless they are whole numbers, in units of the mean of those
    that are not 0. Others are moved to [0, 1] by their range, and stand for two
    counts, the scaled value and what it lacks to 1. Labelled negative rows have no part in the learning.

    With few positive rows among many unlabelled ones the maximisation ends with no positives at all: of texts it took
    100 to 300 positive rows among 1,200 to 2,500.

    References
    ----------
    Liu, Lee, Yu and Li, "Partially supervised classification of text documents", ICML 2002.
    """

    _algorithm: ClassVar[str] = "spy-em"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SHARED_CONSTRAINTS,
        "spies": [Interval(Real, 0.0, 1.0, closed="neither")],
        "noise": [Interval(Real, 0.0, 1.0, closed="both")],
        "noise_of": [StrOptions({"spies", "unlabelled"})],
        "labels": [StrOptions({"soft", "hard"})],
    }

    def __init__(
        self,
        *,
        spies: float = 0.1,
        noise: float = 0.15,
        noise_of: NoiseOf = "spies",
        labels: Literal["soft", "hard"] = "soft",
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
        self.spies = spies
        self.noise = noise
        self.noise_of = noise_of
        self.labels = labels
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
            is_over=lambda: must_end(run),
        )
        told: dict[str, Any] = {
            "reliable_negatives": int(np.count_nonzero(found.negative)),
            "rounds": found.rounds,
            "claimed": int(np.count_nonzero(found.claimed)),
        }
        if found.failed:
            told["warning"] = "No unlabelled row was a reliable negative: the method claims all of them."
        elif not found.claimed.any():
            told["warning"] = "Expectation maximisation ended with no positives: too few positive rows for Spy-EM."
        run.trace.append(told)
        run.iterations += found.rounds
        # Log-odds far on one side of 0 tell little but how many positive rows there were: where all rows are on one
        # side, folds that leave out more positive ones would differ by that from the others.
        one_sided = bool(found.claimed.all()) or not found.claimed.any()
        return comparable(found.plane, found.log_odds, found.claimed if one_sided else None, found.rounds)
