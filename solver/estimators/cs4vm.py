"""CS4VM, the cost-sensitive semi-supervised SVM by label means, and MeanS3VM, its case of equal costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np

from solver.algorithms import ALGORITHMS
from solver.arrays import require_memory
from solver.choices import Means
from solver.estimators._calibration import CalibrationPlan
from solver.estimators._expansion import Expansion
from solver.estimators._run import TrainingRun
from solver.estimators._scores import approximate_products, exact_scores
from solver.estimators._semi_supervised import SemiSupervisedClassifier, positives_among, stack_rows, top_rows
from solver.estimators.parameters import ShareParameters
from solver.estimators.tsvm import switch_labels
from solver.kernels.kernel import FeatureKernel, PrecomputedKernel
from solver.operating_point import Objective
from solver.typing import FloatArray, IndexArray, Matrix

_MAX_ALTERNATIONS: Final = 100
# a new assignment must raise the mean score of the positive rows by more than this share of the mean absolute score
_GAIN: Final = 1e-6


@dataclass(kw_only=True, eq=False, repr=False)
class _LabelMeanClassifier(ShareParameters, SemiSupervisedClassifier):
    """The two steps, for costs that the subclass names."""

    declaration: ClassVar = ALGORITHMS["mean-s3vm"]

    C1: float = declaration.defaults["C1"]
    C2: float = declaration.defaults["C2"]
    means: Means = declaration.defaults["means"]
    kernel: str = declaration.defaults["kernel"]

    def _costs(self) -> tuple[float, float]:
        """(false negative, false positive)."""
        return 1.0, 1.0

    @property
    def _score_shift(self) -> float:
        return 0.0

    def _labelled_cost(self, run: TrainingRun) -> float:
        return self.C1 if run.tuned_C is None else run.tuned_C

    def _train(self, run: TrainingRun, labelled: IndexArray, plan: CalibrationPlan) -> Expansion:
        del plan
        costs, C1 = self._costs(), self._labelled_cost(run)
        positives = positives_among(len(run.unlabelled), run.y[labelled], self.positive_share, self.prior_strength)
        if self.means == "tsvm":
            # blind to the costs: they belong to the decision, not to what the labels are
            cost = C1 * run.cost[labelled] / np.where(run.y[labelled] > 0, *costs)
            start = run.solve(labelled, run.y[labelled], cost)
            first = Expansion.from_solution(labelled, run.y[labelled], start, len(run.y))
            labels = switch_labels(run, labelled, cost, self.C2, positives, first)[1]
        else:
            start_model = self._train_svm(run, labelled)
            labels = find_label_means(run, labelled, C1 * run.cost[labelled], self.C2, costs, positives, start_model)
        model = train_with_labels(run, labelled, C1 * run.cost[labelled], self.C2, costs, labels)
        return replace(model, intercept=model.intercept + self._score_shift)


@dataclass(kw_only=True, eq=False, repr=False)
class CS4VM(_LabelMeanClassifier):
    """Cost-sensitive semi-supervised SVM.

    Step 1 finds which unlabelled rows are positive, by the class means that give the widest margin between them; step
    2 trains an SVM in which an unlabelled row costs as much as the paper's loss says with that label. The paper's
    printed equations 4 to 9 contain errors; this follows the corrected ones (checked against a generic solver).

    Without unlabelled rows it is the cost-sensitive SVM (CS-SVM).

    Parameters
    ----------
    false_negative, false_positive : float, optional
        Costs of the two errors, c₊ and c₋. By default those of a cost objective, otherwise 1.
    C1, C2 : float, default 1.0 and 0.1
        Costs of margin errors of labelled and of unlabelled rows, multiplied by the costs of the classes.
    means : {"alternating", "tsvm"}, default "alternating"
        Step 1 of the paper, or the labels of a TSVM that ignores the costs (measured to be better for most data).
    cost_shift : float, default 0.0
        Adds cost_shift · ln(false_negative / false_positive) to every score. 0.25 was measured to be better than 0.
    objective : dict or Objective, optional
        By default the cost objective of the two costs. See `SVM`.

    See Also
    --------
    solver.estimators.parameters : Parameters that classifiers share, and the attributes of a fitted one.

    Notes
    -----
    Step 1 keeps a kernel matrix of the labelled rows in memory, except with the linear kernel.

    References
    ----------
    Li, Kwok and Zhou, "Cost-sensitive semi-supervised support vector machine", AAAI 2010; "Semi-supervised learning
    using label mean", ICML 2009.
    """

    declaration: ClassVar = ALGORITHMS["cs4vm"]

    false_negative: float | None = declaration.defaults["false_negative"]
    false_positive: float | None = declaration.defaults["false_positive"]
    cost_shift: float = declaration.defaults["cost_shift"]
    objective: str | Mapping[str, Any] | Objective | None = None

    def _costs(self) -> tuple[float, float]:
        """(false negative, false positive)."""
        of_objective = None if self.objective is None else Objective.parse(self.objective).costs
        false_negative, false_positive = of_objective or (1.0, 1.0)
        if self.false_negative is not None:
            false_negative = float(self.false_negative)
        if self.false_positive is not None:
            false_positive = float(self.false_positive)
        return false_negative, false_positive

    def _objective(self) -> Objective:
        if self.objective is not None:
            return Objective.parse(self.objective)
        false_negative, false_positive = self._costs()
        return Objective.parse({"kind": "cost", "false_negative": false_negative, "false_positive": false_positive})

    def _class_factors(self, encoded: FloatArray) -> FloatArray:
        false_negative, false_positive = self._costs()
        factors = super()._class_factors(encoded)
        factors[encoded > 0] *= false_negative
        factors[encoded < 0] *= false_positive
        return factors

    @property
    def _score_shift(self) -> float:
        false_negative, false_positive = self._costs()
        return self.cost_shift * float(np.log(false_negative / false_positive))


@dataclass(kw_only=True, eq=False, repr=False)
class MeanS3VM(_LabelMeanClassifier):
    """Semi-supervised SVM by label means: CS4VM with equal costs.

    Parameters
    ----------
    C1, C2, means
        As in `CS4VM`.

    See Also
    --------
    solver.estimators.parameters : Parameters that classifiers share, and the attributes of a fitted one.

    References
    ----------
    Li, Kwok and Zhou, "Semi-supervised learning using label mean", ICML 2009.
    """


def find_label_means(
    run: TrainingRun,
    labelled: IndexArray,
    cost: FloatArray,
    unlabelled_cost: float,
    costs: tuple[float, float],
    positives: int,
    start: Expansion,
) -> FloatArray:
    """Step 1: labels of the unlabelled rows whose class means have the widest cost-sensitive margin between them.

    Alternates between the classifier for given means (a problem of one variable more than there are labelled rows) and
    the means for a given classifier (its `positives` highest unlabelled rows).

    Parameters
    ----------
    run : TrainingRun
    labelled : int array
    cost : float64 array
        Cost of each labelled row's margin error.
    unlabelled_cost : float
        C₂.
    costs : (c₊, c₋)
    positives : int
        u₊.
    start : Expansion
        Its ranking gives the first labels.

    Returns
    -------
    float64 array of +1 and -1, one for each unlabelled row
    """
    c_pos, c_neg = costs
    unlabelled = run.unlabelled
    n_labelled = len(labelled)
    columns = np.concatenate([labelled, unlabelled])
    y = np.append(run.y[labelled], 1.0)
    # the multipliers of the two means, once one is eliminated, are one variable in [0, κ] on the pseudo row x_τ
    kappa = unlabelled_cost / c_pos + unlabelled_cost / c_neg
    first = unlabelled_cost / c_neg
    chosen = top_rows(exact_scores(run, start, unlabelled), positives)
    labelled_matrix = None
    if run.kernel_parameters.kind != "linear":
        require_memory(
            8 * (n_labelled + 1) ** 2,
            "the search for label means",
            f"a kernel matrix of the {n_labelled} labelled rows",
            "kernel='linear' or means='tsvm'",
        )
        labelled_matrix = np.empty((n_labelled + 1, n_labelled + 1))
        labelled_matrix[:-1, :-1] = run.kernel.matrix(labelled, labelled)
    for _ in range(_MAX_ALTERNATIONS):
        weight = np.where(chosen, c_neg / positives, c_pos / (len(unlabelled) - positives)) / (c_pos + c_neg)
        rest = np.where(chosen, 0.0, 1.0 / (len(unlabelled) - positives))
        k_tau = approximate_products(run, unlabelled, weight, columns)  # ⟨x_τ, ·⟩
        k_constant = -first * approximate_products(run, unlabelled[~chosen], rest[~chosen], columns)  # ⟨w₀, ·⟩
        # Sums of NumPy: BLAS adds up so many numbers in another order on more threads.
        constant_tau = -first * float(np.sum(rest * k_tau[n_labelled:]))
        p = y * np.append(k_constant[:n_labelled], constant_tau) + np.append(-np.ones(n_labelled), 0.0)
        kernel: FeatureKernel | PrecomputedKernel
        if labelled_matrix is None:
            kernel = FeatureKernel(_with_pseudo_row(run, labelled, unlabelled, weight), kind="linear")
        else:
            labelled_matrix[-1, :-1] = labelled_matrix[:-1, -1] = k_tau[:n_labelled]
            labelled_matrix[-1, -1] = np.sum(weight * k_tau[n_labelled:])
            kernel = PrecomputedKernel(labelled_matrix)
        solution = run.solve(
            np.arange(n_labelled + 1),
            y,
            np.append(cost, kappa),
            p=p,
            delta=first,
            alpha0=np.append(np.zeros(n_labelled), first),
            kernel=kernel,
        )
        scores = (
            k_constant[n_labelled:]
            + solution.alpha[-1] * k_tau[n_labelled:]
            + approximate_products(run, labelled, y[:-1] * solution.alpha[:-1], unlabelled)
        )
        # among equals the rows that are positive now stay so
        order = np.lexsort((~chosen, -scores))
        proposed = np.zeros(len(unlabelled), dtype=bool)
        proposed[order[:positives]] = True
        gain = scores[proposed].sum() - scores[chosen].sum()
        if run.ended or gain <= _GAIN * np.abs(scores).mean():
            break
        chosen = proposed
    return np.where(chosen, 1.0, -1.0)


def _with_pseudo_row(run: TrainingRun, labelled: IndexArray, unlabelled: IndexArray, weight: FloatArray) -> Matrix:
    """The labelled rows with the weighted sum of the unlabelled ones below them."""
    pseudo = np.asarray(run.X[unlabelled].T @ weight, dtype=np.float64)[None, :]
    return stack_rows(run.X[labelled], pseudo)


def train_with_labels(
    run: TrainingRun,
    labelled: IndexArray,
    cost: FloatArray,
    unlabelled_cost: float,
    costs: tuple[float, float],
    labels: FloatArray,
) -> Expansion:
    """Step 2: equation 6 of the paper, corrected, for given labels of the unlabelled rows.

    An unlabelled row of label ŷ has two hinges: c(ŷ) · max(0, 1 - ŷf) and c(-ŷ) · max(0, -1 - ŷf), hence two variables.
    """
    unlabelled = run.unlabelled
    of_positive, of_negative = costs
    rows = np.concatenate([labelled, unlabelled, unlabelled])
    y = np.concatenate([run.y[labelled], labels, labels])
    p = np.concatenate([-np.ones(len(labelled) + len(unlabelled)), np.ones(len(unlabelled))])
    soft = unlabelled_cost * run.cost[unlabelled]
    own = soft * np.where(labels > 0, of_positive, of_negative)
    other = soft * np.where(labels > 0, of_negative, of_positive)
    solution = run.solve(rows, y, np.concatenate([cost, own, other]), p=p)
    return Expansion.from_solution(rows, y, solution, len(run.y))
