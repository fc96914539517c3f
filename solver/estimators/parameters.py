"""The parameters that several classifiers have, documented here once, and how all parameters are checked.

Names, defaults and bounds are those that `solver.algorithms` declares, but for what has no place in a request: the
objective, labels, limits on time, random numbers and a callback.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight

from solver.algorithms import MODE, SHARE, SHARED, SOLVER, AlgorithmSpec
from solver.choices import EngineName, LabeledSplit, Mode, ThresholdRule, Tune
from solver.estimators._run import FitCallback
from solver.evaluation.splits import is_grouped
from solver.operating_point import Objective
from solver.parameters import Parameter
from solver.typing import FloatArray, IndexArray, Matrix

_DEFAULTS: Final = {each.name: each.python_default for each in (*SHARED, *SHARE, MODE, SOLVER)}
_UNDECLARED: Final[dict[str, Any]] = {
    "objective": [None, str, dict, Objective],
    "positive": "no_validation",
    "unlabeled": "no_validation",
    "max_seconds": [None, Interval(Real, 0, None, closed="neither")],
    "random_state": ["random_state"],
    "callback": [None, callable],
}


@dataclass(kw_only=True, eq=False, repr=False)
class SharedParameters(BaseEstimator):
    """What all classifiers take, and what they have once they are fitted.

    `threshold_rule="zero"` with `labeled_split="full"` is each method by itself, without a choice of the threshold.

    Parameters
    ----------
    objective : str, dict or Objective, default "f1"
        See `solver.operating_point.Objective`. None is F1, too; for `CS4VM` it is the cost objective of its costs.
    threshold_rule : str, default "auto"
        See `solver.operating_point.choose_threshold`. `zero`: the threshold is 0, the objective is only reported on. A
        confidence in the objective turns `auto` and `f1max` into `fixed-sequence`.
    labeled_split : {"xfit", "part", "full"}, default "xfit"
        Scores for the threshold: out-of-fold (5 folds, the model sees all rows), of a held-out half, or of the
        training rows themselves (fast, optimistic).
    positive : label, optional
        The class that precision, recall and costs speak of; the larger of the two sorted labels by default.
    unlabeled : label, optional
        The label that marks unlabelled rows besides None and NaN; -1 by default when there are two other labels.
    kernel : {"rbf", "linear", "poly", "sigmoid"}, default "rbf"
    gamma : {"scale", "auto"} or float, default "scale"
        Factor in the kernel; `scale` is 1 / (d · variance of X), of all rows, labelled or not; `auto` is 1 / d.
    degree : int, default 3
    coef0 : float, default 0.0
    tol : float, default 1e-3
        Largest violation of the optimality conditions.
    max_iter : int, default -1
        Limit on the solver's iterations in each call; -1 for none.
    max_seconds : float, optional
        Limit on the whole fit.
    cache_size : float, optional
        Megabytes for kernel rows; by default a third of the free memory, at most 2048.
    device : {"auto", "cpu", "cuda"}, default "auto"
    class_weight : dict, "balanced" or None
        Factors on C by label.
    random_state : int, RandomState or None
        Seeds the split of the labelled rows, and what else a method draws.
    callback : callable, optional
        Called as `callback(fraction, info)`; True stops and keeps the best model so far.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The negative and the positive label.
    threshold_ : float
        `predict` is positive where `decision_function` is strictly above it.
    status_ : str
        `met`, `preference_unmet`, `cannot_certify`, `solver_limit` or `stopped`.
    status_reason_ : str
        One sentence when the status is not `met`.
    report_ : Report
        Measures with intervals, controls, operating curve, solver and timings, see `solver.report`.
    control_states_ : dict of DecisionState
        The decisions named in `report_.controls`.
    n_features_in_, feature_names_in_, n_iter_
        As in scikit-learn.
    """

    declaration: ClassVar[AlgorithmSpec]

    objective: str | Mapping[str, Any] | Objective | None = "f1"
    threshold_rule: ThresholdRule = _DEFAULTS["threshold_rule"]
    labeled_split: LabeledSplit = _DEFAULTS["labeled_split"]
    positive: Any = None
    unlabeled: Any = None
    kernel: str = _DEFAULTS["kernel"]
    gamma: str | float = _DEFAULTS["gamma"]
    degree: int = _DEFAULTS["degree"]
    coef0: float = _DEFAULTS["coef0"]
    tol: float = _DEFAULTS["tol"]
    max_iter: int = _DEFAULTS["max_iter"]
    max_seconds: float | None = None
    cache_size: float | None = _DEFAULTS["cache_size"]
    device: str = _DEFAULTS["device"]
    class_weight: Any = _DEFAULTS["class_weight"]
    random_state: Any = None
    callback: FitCallback | None = None

    @classmethod
    @functools.cache  # scikit-learn looks at the signature each time, which takes longer than a small fit
    def _get_param_names(cls) -> list[str]:
        names: list[str] = super()._get_param_names()
        return names

    @property
    def _parameter_constraints(self) -> dict[str, Any]:
        """What scikit-learn's check of parameters goes by."""
        estimator: Any = type(self)
        return _constraints(estimator)


@dataclass(kw_only=True, eq=False, repr=False)
class CostParameters:
    """Of methods with one cost of all margin errors.

    Parameters
    ----------
    C : float, default 1.0
        Cost of a margin error.
    tune : {"none", "C", "C-gamma"}, default "none"
        Choose C from 0.01 … 1000, and gamma from a sixteenth to sixteen times its value, by cross-validation of the
        SVM on the labelled rows; each cell is worth the objective at its best threshold. `report_.tuning` shows
        them all.
    """

    C: float = _DEFAULTS["C"]
    tune: Tune = _DEFAULTS["tune"]


@dataclass(kw_only=True, eq=False, repr=False)
class EngineParameter:
    """Of methods that can do with an approximated kernel.

    Parameters
    ----------
    solver : {"auto", "exact", "lowrank"}, default "auto"
        `lowrank` approximates the kernel by at most 1,024 landmarks: for very many rows. `auto` takes it where the
        kernel rows of the exact solver would not fit into memory or time. `report_.solver` says which it was, and
        how far from exact.
    """

    solver: EngineName = _DEFAULTS["solver"]


@dataclass(kw_only=True, eq=False, repr=False)
class ModeParameter:
    """Of methods that learn from unlabelled rows.

    Parameters
    ----------
    mode : {"method", "safe", "balanced", "bold"}, default "method"
        What is returned: the method's model; or, as long as the calibration rows do not show it to be better than the
        same labels without unlabelled rows, the SVM on those: better by 1.64 standard errors (`safe`), by one
        (`balanced`), by anything (`bold`). `report_.comparison` says which it was.
    """

    mode: Mode = _DEFAULTS["mode"]


@dataclass(kw_only=True, eq=False, repr=False)
class ShareParameters:
    """Of methods that give a fixed number of unlabelled rows to the positive class.

    Parameters
    ----------
    positive_share : float, optional
        Share of positives among the unlabelled rows; by default that of the labelled ones, which is a noisy estimate
        from few labels: give it if you know it.
    prior_strength : float, optional
        With it, `positive_share` is a prior worth this many labelled rows.
    """

    positive_share: float | None = _DEFAULTS["positive_share"]
    prior_strength: float | None = _DEFAULTS["prior_strength"]


@dataclass(kw_only=True, eq=False, repr=False)
class PositiveShareParameter:
    """Of methods that learn from positive and unlabelled rows.

    Parameters
    ----------
    positive_share : float, optional
        Share of positives among the unlabelled rows, by which a threshold is chosen where no negative row is labelled;
        by default it is estimated. Of no effect where two negative rows or more are labelled.
    """

    positive_share: float | None = _DEFAULTS["positive_share"]


def checked_weights(sample_weight: Any, X: Matrix) -> FloatArray:
    """Weights of rows as float64, none of them negative; raises `ValueError` for others."""
    weights: FloatArray = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    return weights


def numbered_groups(groups: ArrayLike | None, y: NDArray[Any]) -> IndexArray | None:
    """Number of the group of each row; None where each is one of its own."""
    if groups is None:
        return None
    check_consistent_length(y, groups)
    _, numbers = np.unique(np.asarray(groups), return_inverse=True)
    return numbers if is_grouped(numbers) else None


@functools.cache
def _constraints(estimator: Any) -> dict[str, Any]:
    constraints = _UNDECLARED | {each.name: _constraint(each) for each in estimator.declaration.parameters}
    return {name: constraints[name] for name in estimator._get_param_names()}


def _constraint(parameter: Parameter) -> list[Any]:
    """What a parameter may be in Python, in scikit-learn's terms."""
    allowed: list[Any] = [None] if parameter.nullable else []
    texts = set(parameter.choices) - set(parameter.replaced)
    if texts:
        allowed.append(StrOptions(texts))
    if parameter.type != "choice":
        domain = parameter.domain
        kind = Integral if parameter.type == "integer" else Real
        allowed.append(Interval(kind, domain.low, domain.high, closed=domain.closed))
    if parameter.name == "class_weight":
        allowed.append(dict)
    return allowed
