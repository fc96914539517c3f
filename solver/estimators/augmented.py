"""Data augmentation: each class claims the unlabelled rows that look like its own, and the SVM is trained on both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions

from solver.engine_choice import EngineName
from solver.estimators._base import SHARED_CONSTRAINTS
from solver.estimators._calibration import CalibrationPlan, LabeledSplit
from solver.estimators._guard import Mode
from solver.estimators._run import Expansion, FitCallback, TrainingRun
from solver.estimators._semi_supervised import SemiSupervisedClassifier, positives_among, top_rows
from solver.estimators._tuning import Tune
from solver.estimators.tsvm import SHARE_CONSTRAINTS
from solver.operating_point import Objective, ThresholdRule
from solver.positive_unlabelled import (
    grow_negatives,
    rank_by_set,
    rank_by_spies,
    reliable_negatives,
    spy_em,
)
from solver.typing import Matrix

Augmenter = Literal["bayesian-sets", "spy-em", "roc-svm"]
AUGMENTERS: Final[tuple[Augmenter, ...]] = get_args(Augmenter)
CutOff = Literal["prior", "own", "spy-em"]
CUT_OFFS: Final[tuple[CutOff, ...]] = get_args(CutOff)

_BLOCK_ELEMENTS: Final = 1 << 20


def binary_rows(X: Matrix) -> Matrix:
    """Which values are large: above 0 in a sparse matrix, above the column's median in a dense one.

    A dense column most of which has its largest value is marked where it has that, so that 0/1 columns stay what they
    are.

    Parameters
    ----------
    X : dense or CSR matrix

    Returns
    -------
    float32 matrix of 0 and 1, sparse if X is
    """
    if sparse.issparse(X):
        entries: Any = X.copy()
        entries.sum_duplicates()
        entries.data = (entries.data > 0).astype(np.float32)
        entries.eliminate_zeros()
        compressed: Matrix = entries
        return compressed
    marks = np.empty(X.shape, dtype=np.float32)
    step = max(1, _BLOCK_ELEMENTS // X.shape[0])
    for start in range(0, X.shape[1], step):
        block = np.asarray(X[:, start : start + step])
        median = np.median(block, axis=0)
        marks[:, start : start + step] = np.where(median < block.max(axis=0), block > median, block >= median)
    return marks


def purify(positive: NDArray[np.bool_], negative: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Take the rows that both classes claim from both: it was measured to help or to do nothing.

    Parameters
    ----------
    positive, negative : bool arrays of shape (u,)
        The unlabelled rows that each class claims.
    """
    both = positive & negative
    return positive & ~both, negative & ~both


@dataclass(frozen=True)
class _Members:
    """Unlabelled rows by how much they look like a class: scores, and those that the augmenter itself takes."""

    scores: NDArray[np.float64]
    own: NDArray[np.bool_]


class AugmentedClassifier(SemiSupervisedClassifier):
    """SVM on the labelled rows and on unlabelled ones that one class claims and the other one does not.

    Each class takes its labelled rows for positive and the unlabelled rows for mixed, ranks these, and claims the
    highest ones. Rows that both claim are dropped; labelled rows are never touched.

    Parameters
    ----------
    augmenter : {"bayesian-sets", "spy-em", "roc-svm"}, default "bayesian-sets"
        What ranks the unlabelled rows. Where a class has few labelled rows, Bayesian Sets was measured to help most.
    cut_off : {"prior", "own", "spy-em"}, default "prior"
        How many rows a class claims: what its share of the labelled rows (or `positive_share`) lets expect; those that
        the augmenter itself takes for members, which Bayesian Sets finds by leaving labelled rows out as spies (that
        needs 30 of each class or more); or as many as Spy-EM finds.
    claim_factor : float, default 0.5
        Part of that number that is claimed, the highest rows first. With 0.5 instead of 1, newsgroups lost half a point
        of accuracy on average; mails whose share of spam was not that of the labels gained four.
    positive_share : float, optional
        Share of positives among the unlabelled rows, for `cut_off="prior"`; by default that of the labelled ones.
    prior_strength : float, optional
        With it, `positive_share` is a prior worth this many labelled rows.
    c : float, default 50.0
        Strength of the prior of Bayesian Sets, which see whether a value is above 0 (sparse rows) or above the
        column's median. 2 is its inventors' choice; 50 was measured to be better for texts.
    length_exponent : float, default 2.0
        Scores of Bayesian Sets are divided by this power of the row's length: 2 is the number of terms of a text.
    C_soft : float, default 0.1
        Cost of a margin error of a claimed row, as a multiple of C.
    tune : {"none", "C", "C-gamma"}, default "none"
        As in `SVM`.
    mode : {"method", "safe", "balanced", "bold"}, default "method"
        What is returned: the method's model; or, as long as the calibration rows do not show it to be better than the
        same labels without unlabelled rows, the SVM on those: better by 1.64 standard errors (`safe`), by one
        (`balanced`), by anything (`bold`). `report_["comparison"]` says which it was.
    objective, threshold_rule, labeled_split, positive, unlabeled, kernel, C, gamma, degree, coef0, tol, max_iter
        As in `SVM`. `threshold_rule="zero"` with `labeled_split="full"` is the method by itself.
    max_seconds, cache_size, device, solver, class_weight, random_state, callback
        As in `SVM`.

    Attributes
    ----------
    classes_, threshold_, status_, status_reason_, report_, control_states_, n_features_in_, feature_names_in_, n_iter_
        As in `SVM`; `report_["rounds"]` tells in its one entry how many rows each class claimed and was given.

    Notes
    -----
    More than two classes: `OneVsOne` and `OneVsRest`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from solver.estimators import AugmentedClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> y = np.where(np.arange(len(y)) % 20 == 0, y, -1)
    >>> augmented = AugmentedClassifier(random_state=0).fit(X / X.max(axis=0), y)
    >>> augmented.report_["rounds"][0]["claimed"]["positive"] > 50
    True
    """

    _algorithm: ClassVar[str] = "augment"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SHARED_CONSTRAINTS,
        **SHARE_CONSTRAINTS,
        "augmenter": [StrOptions(set(AUGMENTERS))],
        "cut_off": [StrOptions(set(CUT_OFFS))],
        "claim_factor": [Interval(Real, 0.0, 1.0, closed="right")],
        "c": [Interval(Real, 0.0, None, closed="neither")],
        "length_exponent": [Interval(Real, 0.0, None, closed="left")],
        "C_soft": [Interval(Real, 0.0, None, closed="neither")],
    }

    def __init__(
        self,
        *,
        augmenter: Augmenter = "bayesian-sets",
        cut_off: CutOff = "prior",
        claim_factor: float = 0.5,
        positive_share: float | None = None,
        prior_strength: float | None = None,
        c: float = 50.0,
        length_exponent: float = 2.0,
        C_soft: float = 0.1,
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
        solver: EngineName = "auto",
        class_weight: Any = None,
        random_state: Any = None,
        callback: FitCallback | None = None,
    ) -> None:
        self.augmenter = augmenter
        self.cut_off = cut_off
        self.claim_factor = claim_factor
        self.positive_share = positive_share
        self.prior_strength = prior_strength
        self.c = c
        self.length_exponent = length_exponent
        self.C_soft = C_soft
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
        self.solver = solver
        self.class_weight = class_weight
        self.random_state = random_state
        self.callback = callback

    def _train(self, run: TrainingRun, labelled: NDArray[np.intp], plan: CalibrationPlan) -> Expansion:
        del plan
        alone = self._train_svm(run, labelled)
        unlabelled, truth = run.unlabelled, run.y[labelled]
        expected = positives_among(len(unlabelled), truth, self.positive_share, self.prior_strength)
        claims = []
        for members, count in ((labelled[truth > 0], expected), (labelled[truth < 0], len(unlabelled) - expected)):
            claims.append(self._claim(run, members, count))
            if run.progress(run.fraction) or run.is_exhausted():
                return alone
        positive, negative = purify(*claims)
        given = np.concatenate([unlabelled[positive], unlabelled[negative]])
        run.trace.append(
            {
                "round": 1,
                "claimed": _counts(*claims),
                "dropped": int(np.count_nonzero(claims[0] & claims[1])),
                "added": _counts(positive, negative),
            }
        )
        return run.train(
            np.concatenate([labelled, given]),
            np.concatenate([truth, np.ones(np.count_nonzero(positive)), -np.ones(np.count_nonzero(negative))]),
            self._labelled_cost(run) * np.concatenate([run.cost[labelled], self.C_soft * run.cost[given]]),
            alone,
        )

    def _claim(self, run: TrainingRun, members: NDArray[np.intp], expected: int) -> NDArray[np.bool_]:
        """The unlabelled rows that these labelled rows of one class claim."""
        ranked = self._rank(run, members, expected)
        if self.cut_off == "prior":
            count = expected
        elif self.cut_off == "own" or self.augmenter == "spy-em":
            count = int(np.count_nonzero(ranked.own))
        else:
            count = int(np.count_nonzero(self._spy_em(run, members).own))
        return top_rows(ranked.scores, round(self.claim_factor * count))

    def _rank(self, run: TrainingRun, members: NDArray[np.intp], expected: int) -> _Members:
        """Rank the unlabelled rows by the augmenter."""
        if self.augmenter == "spy-em":
            return self._spy_em(run, members)
        if self.augmenter == "roc-svm":
            return self._roc_svm(run, members)
        if "binary" not in run.memo:
            run.memo["binary"] = binary_rows(run.X)
        rows: Matrix = run.memo["binary"]
        c, exponent = float(self.c), float(self.length_exponent)
        if self.cut_off == "own" and len(members) > 1:
            ranked = rank_by_spies(rows, members, run.unlabelled, strengths=(c,), exponents=(exponent,), seed=run.seed)
        else:
            share = expected / len(run.unlabelled)
            ranked = rank_by_set(rows, members, run.unlabelled, share, c=c, exponent=exponent)
        return _Members(ranked.scores, ranked.claimed)

    @staticmethod
    def _spy_em(run: TrainingRun, members: NDArray[np.intp]) -> _Members:
        def is_over() -> bool:
            return run.progress(run.fraction) or run.is_exhausted()

        found = spy_em(run.X, members, run.unlabelled, seed=run.seed, is_over=is_over)
        # without reliable negatives it takes all rows, which is no claim
        return _Members(found.log_odds, found.claimed & (not found.failed))

    def _roc_svm(self, run: TrainingRun, members: NDArray[np.intp]) -> _Members:
        unlabelled = run.unlabelled

        def train(
            negative: NDArray[np.bool_], before: Expansion | None
        ) -> tuple[Expansion, NDArray[np.float64], NDArray[np.float64]]:
            rows = np.concatenate([members, unlabelled[negative]])
            y = np.concatenate([np.ones(len(members)), -np.ones(np.count_nonzero(negative))])
            model = run.train(rows, y, self._labelled_cost(run) * run.cost[rows], before)
            return model, run.approximate_scores(model, members), run.approximate_scores(model, unlabelled)

        reliable = reliable_negatives(run.X, members, unlabelled, scope="unlabelled", seed=run.seed)
        grown = grow_negatives(reliable, train, lambda: bool(run.ended) or run.is_exhausted())
        scores = run.approximate_scores(grown.model, unlabelled)
        return _Members(scores, scores > 0)


def _counts(positive: NDArray[np.bool_], negative: NDArray[np.bool_]) -> dict[str, int]:
    return {"positive": int(np.count_nonzero(positive)), "negative": int(np.count_nonzero(negative))}
