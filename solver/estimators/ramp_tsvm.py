"""The transductive SVM with the ramp loss, by the concave-convex procedure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from solver.algorithms import ALGORITHMS
from solver.estimators._calibration import CalibrationPlan
from solver.estimators._expansion import Expansion
from solver.estimators._run import TrainingRun
from solver.estimators._scores import approximate_scores
from solver.estimators._semi_supervised import SemiSupervisedClassifier, stack_rows
from solver.estimators.parameters import CostParameters, ShareParameters
from solver.kernels.kernel import AugmentedKernel, FeatureKernel
from solver.typing import FloatArray, IndexArray

_MAX_CONVEX_STEPS: Final = 30


@dataclass(kw_only=True, eq=False, repr=False)
class RampTSVM(ShareParameters, CostParameters, SemiSupervisedClassifier):
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
        They set the mean score of the unlabelled rows to 2 · share - 1.

    See Also
    --------
    solver.estimators.parameters : Parameters that classifiers share, and the attributes of a fitted one.

    References
    ----------
    Collobert, Sinz, Weston and Bottou, "Large scale transductive SVMs", JMLR 7, 2006.
    """

    declaration: ClassVar = ALGORITHMS["ramp-tsvm"]

    C_unlabeled: float | None = declaration.defaults["C_unlabeled"]
    ramp: float = declaration.defaults["ramp"]

    def _train(self, run: TrainingRun, labelled: IndexArray, plan: CalibrationPlan) -> Expansion:
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
        alpha: FloatArray | None = None
        gradient: FloatArray | None = None
        beta = self._flat(approximate_scores(run, model, unlabelled), soft, n_labelled)
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
            proposed = self._flat(approximate_scores(run, model, unlabelled), soft, n_labelled)
            if np.array_equal(proposed, beta):
                break
            beta = proposed
        return model

    def _flat(self, scores: FloatArray, soft: FloatArray, n_labelled: int) -> FloatArray:
        """β: the cost of each copy that stands where the ramp is flat, 0 elsewhere."""
        return np.concatenate(
            [np.zeros(n_labelled), np.where(scores < self.ramp, soft, 0.0), np.where(-scores < self.ramp, soft, 0.0)]
        )

    def _target_mean(self, labels: FloatArray) -> float:
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
