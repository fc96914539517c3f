"""The transductive SVM with the ramp loss, by the concave-convex procedure."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from solver.estimators._base import SHARED_CONSTRAINTS
from solver.estimators._calibration import CalibrationPlan, LabeledSplit
from solver.estimators._guard import Mode
from solver.estimators._run import Expansion, FitCallback, TrainingRun
from solver.estimators._semi_supervised import SemiSupervisedClassifier, stack_rows
from solver.estimators._tuning import Tune
from solver.estimators.tsvm import SHARE_CONSTRAINTS
from solver.kernels.kernel import AugmentedKernel, FeatureKernel
from solver.operating_point import Objective, ThresholdRule

_MAX_CONVEX_STEPS: Final = 30


class RampTSVM(SemiSupervisedClassifier):
    """Transductive SVM with the ramp loss: an unlabelled row deep inside the margin's wrong side costs no more there.

    Each convex step is one SVM problem in which every unlabelled row stands once as a positive and once as a negative
    row. The mean score of the unlabelled rows is kept at the mean label of the labelled ones.

    Parameters
    ----------
    C_unlabeled : float, optional
        Cost of a margin error of an unlabelled row; by default C · (labelled / unlabelled rows).
    ramp : float, default -0.3
        s in (-1, 0]: the loss is flat below it.
    positive_share, prior_strength : float, optional
        As in `TSVM`; they set the mean score to 2 · share - 1.
    tune : {"none", "C", "C-gamma"}, default "none"
        As in `SVM`.
    mode : {"method", "safe", "balanced", "bold"}, default "method"
        What is returned: the method's model; or, as long as the calibration rows do not show it to be better than the
        same labels without unlabelled rows, the SVM on those: better by 1.64 standard errors (`safe`), by one
        (`balanced`), by anything (`bold`). `report_["comparison"]` says which it was.
    objective, threshold_rule, labeled_split, positive, unlabeled, kernel, C, gamma, degree, coef0, tol, max_iter
        As in `SVM`. `threshold_rule="zero"` with `labeled_split="full"` is the method by itself.
    max_seconds, cache_size, device, class_weight, random_state, callback
        As in `SVM`.

    Attributes
    ----------
    classes_, threshold_, status_, status_reason_, report_, control_states_, n_features_in_, feature_names_in_, n_iter_
        As in `SVM`.

    References
    ----------
    Collobert, Sinz, Weston and Bottou, "Large scale transductive SVMs", JMLR 7, 2006.
    """

    _algorithm: ClassVar[str] = "ramp-tsvm"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SHARED_CONSTRAINTS,
        **SHARE_CONSTRAINTS,
        "C_unlabeled": [None, Interval(Real, 0.0, None, closed="neither")],
        "ramp": [Interval(Real, -1.0, 0.0, closed="right")],
    }

    def __init__(
        self,
        *,
        C_unlabeled: float | None = None,
        ramp: float = -0.3,
        positive_share: float | None = None,
        prior_strength: float | None = None,
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
        self.C_unlabeled = C_unlabeled
        self.ramp = ramp
        self.positive_share = positive_share
        self.prior_strength = prior_strength
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

    def _train(self, run: TrainingRun, labelled: NDArray[np.intp], plan: CalibrationPlan) -> Expansion:
        del plan
        unlabelled = run.unlabelled
        n_labelled, n_unlabelled, total = len(labelled), len(unlabelled), len(run.y)
        final = self._labelled_cost(run) * n_labelled / n_unlabelled if self.C_unlabeled is None else self.C_unlabeled
        soft = final * run.cost[unlabelled]
        kernel = run.memo.get("mean_kernel")
        if kernel is None:
            kernel = run.memo["mean_kernel"] = _kernel_with_mean(run)
        # the last variable stands on the mean of the unlabelled rows and keeps their mean score at the target
        rows = np.concatenate([labelled, unlabelled, unlabelled, [total]])
        y = np.concatenate([run.y[labelled], np.ones(n_unlabelled), -np.ones(n_unlabelled), [1.0]])
        p = np.append(-np.ones(len(rows) - 1), -self._target_mean(run.y[labelled]))
        cost = np.concatenate([self._labelled_cost(run) * run.cost[labelled], soft, soft])
        model = self._train_svm(run, labelled)
        alpha: NDArray[np.float64] | None = None
        gradient: NDArray[np.float64] | None = None
        beta = self._flat(run.approximate_scores(model, unlabelled), soft, n_labelled)
        for _ in range(_MAX_CONVEX_STEPS):
            if run.ended:
                break
            solution = run.solve(
                rows,
                y,
                np.append(cost - beta, np.inf),
                lo=np.append(-beta, -np.inf),
                p=p,
                alpha0=alpha,
                grad0=gradient,
                kernel=kernel,
            )
            alpha, gradient = np.asarray(solution.alpha), np.asarray(solution.gradient)
            dense = np.bincount(rows, weights=y * alpha, minlength=total + 1).astype(np.float64)
            dense[unlabelled] += dense[total] / n_unlabelled
            used = np.flatnonzero(dense[:total])
            model = Expansion(used, dense[used], float(solution.b), solution)
            proposed = self._flat(run.approximate_scores(model, unlabelled), soft, n_labelled)
            if np.array_equal(proposed, beta):
                break
            beta = proposed
        return model

    def _flat(self, scores: NDArray[np.float64], soft: NDArray[np.float64], n_labelled: int) -> NDArray[np.float64]:
        """β: the cost of each copy that stands where the ramp is flat, 0 elsewhere."""
        return np.concatenate(
            [np.zeros(n_labelled), np.where(scores < self.ramp, soft, 0.0), np.where(-scores < self.ramp, soft, 0.0)]
        )

    def _target_mean(self, labels: NDArray[np.float64]) -> float:
        share = self.positive_share
        if share is None:
            return float(labels.mean())
        if self.prior_strength is not None:
            positive = float(np.count_nonzero(labels > 0))
            share = (positive + self.prior_strength * share) / (len(labels) + self.prior_strength)
        return 2 * share - 1


def _kernel_with_mean(run: TrainingRun) -> FeatureKernel | AugmentedKernel:
    """The run's kernel with one more sample: the mean of the unlabelled rows in the kernel's feature space."""
    unlabelled = run.unlabelled
    if run.kernel_parameters.kind == "linear":
        mean = np.asarray(run.X[unlabelled].mean(axis=0), dtype=np.float64).reshape(1, -1)
        return FeatureKernel(stack_rows(run.X, mean), kind="linear")
    weights = np.zeros((1, len(run.y)))
    weights[0, unlabelled] = 1.0 / len(unlabelled)
    return AugmentedKernel(run.kernel, weights)
