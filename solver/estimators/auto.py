"""The default: the SVM, or another method where labelled and unlabelled rows show it to be better."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike

from solver.algorithms import ALGORITHMS, POSITIVES_ONLY
from solver.choices import JudgeMode, ThresholdRule
from solver.estimators._base import ThresholdClassifier
from solver.estimators._calibration import CalibrationPlan
from solver.estimators._choosing import Learned, choose
from solver.estimators._expansion import Expansion
from solver.estimators._judge import Candidate, judge, judge_favoured
from solver.estimators._run import TrainingRun
from solver.estimators._scores import approximate_scores
from solver.estimators.parameters import PositiveShareParameter
from solver.estimators.svm import SVM
from solver.method_limits import (
    FAVOURED_UNLABELLED,
    FEWEST_UNLABELLED,
    JUDGED_LABELLED,
    JUDGED_UNLABELLED,
    JUDGING_SECONDS,
)
from solver.operating_point import Objective
from solver.report import Judgement
from solver.typing import BoolArray, FloatArray

JUDGED: Final = ("mean-s3vm", "lapsvm", "cluster")
"""The methods with unlabelled rows that are tried."""
LARGER: Final = 10.0
"""An SVM with so many times the cost of margin errors is tried too."""
STRICT_PRECISION: Final = 0.95
STRICT_SPECIFICITY: Final = 0.99
"""Beyond these a method that is favoured is not tried: on mails the SVM catches more then (`benchmarks/mail.py`)."""
_FOR_F1: Final[tuple[Objective, ThresholdRule]] = (Objective("f1"), "auto")


class _Favouring:
    """Holds what is no parameter, as it tells of the kind of the data."""

    _favoured: str | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class AutoClassifier(_Favouring, PositiveShareParameter, SVM):
    """The SVM, or another method where labelled and unlabelled rows show it to be better.

    Beside the SVM on the labelled rows an SVM with ten times the C is trained, and the methods of `JUDGED`, which learn
    from the unlabelled rows too, all with the same kernel and the same folds. One is taken if its log loss on left-out
    labelled rows is better than the SVM's, if its threshold parts the unlabelled rows' scores more sharply, and if it
    ranks these rows nearly as the SVM does; of several, the one of the least log loss. `report_.judge` has the figures.

    It is the SVM alone where nothing is to be had, or nothing could be shown: with fewer than 50 unlabelled rows or
    more than 500 labelled ones, with less than half a minute of time, without left-out scores (`labeled_split="full"`),
    with `solver="lowrank"`, and where a confidence is asked for with a cross-fitted certificate, as all labelled rows
    test the threshold then and none may have chosen the method.

    Parameters
    ----------
    positive_share : float, optional
        As of `BiasedSVM`, which is taken where all labelled rows are positive and others have no label.
    mode : {"safe", "balanced", "bold"}, default "safe"
        By how many standard errors the log loss must be better: 1.64, 1, or a half.

    See Also
    --------
    solver.estimators.parameters : Parameters that classifiers share, and the attributes of a fitted one.

    Notes
    -----
    Of more than 2,000 unlabelled rows 2,000 take part, drawn at random; of 4,000 where `favour` has named a method.
    """

    declaration: ClassVar = ALGORITHMS["auto"]

    mode: JudgeMode = declaration.defaults["mode"]

    def favour(self, method: str | None) -> Any:
        """Say which of `JUDGED` is better than the SVM as a rule on data of this kind; None for none.

        It is tried alone then, and taken unless the rows speak against it, see `judge_favoured`; not at all for targets
        that are beyond `STRICT_PRECISION` or `STRICT_SPECIFICITY`.

        Returns
        -------
        self
        """
        self._favoured = method
        return self

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        unmeasured: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Any:
        """Train, then choose the threshold for the objective: as `SVM`, or as `BiasedSVM` without negative rows.

        Unlabelled rows have the label None or NaN or equal `unlabeled`; -1 beside one other label is a class.

        Returns
        -------
        self
        """
        method = self._for_positives_only(y, unmeasured)
        if method is None:
            return super().fit(X, y, sample_weight, unmeasured, groups)
        self._validate_params()
        method.fit(X, y, sample_weight, unmeasured, groups)
        for name, value in vars(method).items():
            if name == "_state" or (name.endswith("_") and not name.startswith("_")):
                setattr(self, name, value)
        said = f"All labelled rows are positive: {POSITIVES_ONLY} was taken, which needs no other. None was judged."
        told = replace(_kept(self.mode, said), returned=POSITIVES_ONLY)
        params = {name: value for name, value in method.report_.params.items() if name in self.get_params()}
        params["mode"] = self.mode
        self.report_ = replace(method.report_, algorithm=self.declaration.name, params=params, judge=told)
        return self

    def _for_positives_only(self, y: ArrayLike, unmeasured: ArrayLike | None) -> Any:
        """What is trained instead where no negative row measures; None where some do."""
        if y is None or (self.unlabeled is None and (np.asarray(y, dtype=object) == -1).any()):
            return None
        load = ALGORITHMS[POSITIVES_ONLY].load()
        names = [name for name in load._get_param_names() if name in self.get_params() and name != "mode"]
        method = load(**{name: getattr(self, name) for name in names})
        method.within(self._seconds).share(self._parts)
        return method if method.lacks_negatives(y, unmeasured) else None

    def _takes_part(self, encoded: FloatArray, keep: BoolArray) -> BoolArray:
        taken: BoolArray = keep & (encoded != 0)
        unlabelled = np.flatnonzero(keep & (encoded == 0))
        self._has_unlabelled = len(unlabelled) > 0
        self._why_not = self._reason(int(np.count_nonzero(taken)), len(unlabelled))
        if self._why_not:
            return taken
        most = JUDGED_UNLABELLED if self._favoured is None else FAVOURED_UNLABELLED
        if len(unlabelled) > most:
            unlabelled = np.random.default_rng(0).choice(unlabelled, most, replace=False)
        taken[unlabelled] = True
        return taken

    def _reason(self, labelled: int, unlabelled: int) -> str:
        """Why no method is tried; empty if some are."""
        objective = self._objective()
        if self._favoured is not None and _is_strict(objective):
            return f"svm is better than {self._favoured} where so few rows may be called positive wrongly"
        if unlabelled < FEWEST_UNLABELLED:
            return f"fewer than {FEWEST_UNLABELLED} rows are without a label"
        if labelled > JUDGED_LABELLED:
            return f"with more than {JUDGED_LABELLED} labelled rows the others do not help"
        if min(self._seconds or math.inf, self.max_seconds or math.inf) < JUDGING_SECONDS:
            return f"the training may take less than {JUDGING_SECONDS:g} seconds"
        if self.solver == "lowrank":
            return "they do without an approximated kernel (solver = 'lowrank')"
        if self.labeled_split == "full":
            return "no scores are left out that could judge (labeled_split = 'full')"
        if objective.confidence is not None and objective.certificate != "strict":
            return "all labelled rows test the certificate, so that none may choose a method"
        return ""

    def _learn(self, run: TrainingRun, plan: CalibrationPlan, objective: Objective, rule: ThresholdRule) -> Learned:
        svm = super()._learn(run, plan, objective, rule)
        if not self._has_unlabelled:
            return svm
        if self._why_not:
            return replace(svm, judgement=_kept(self.mode, f"No other method was tried: {self._why_not}."))

        def candidate(name: str, model: Expansion, scores: FloatArray) -> Candidate:
            served = (objective, rule) if self._favoured is None else _FOR_F1
            threshold = choose(run, plan, scores, *served).threshold
            return Candidate(name, model, scores, approximate_scores(run, model, run.unlabelled), threshold)

        others = [] if run.is_exhausted() else list(self._others(run, plan))
        if run.ended or not (np.isfinite(svm.scores).all() and others):
            return replace(svm, judgement=_kept(self.mode, "Training ended before another method could be judged."))
        truth = run.y[plan.rows]
        control = candidate("svm", svm.model, svm.scores)
        candidates = [candidate(*other) for other in others]
        if self._favoured is None:
            judgement = judge(truth, control, candidates, self.mode)
        else:
            judgement = judge_favoured(truth, control, candidates[0], self.mode)
        taken = next((each for each in candidates if each.name == judgement.returned), None)
        if taken is None:
            return replace(svm, judgement=judgement)
        return replace(svm, model=taken.model, scores=taken.scores, judgement=judgement)

    def _methods(self) -> dict[str, ThresholdClassifier]:
        """The methods that are tried, by name."""
        names = JUDGED if self._favoured is None else (self._favoured,)
        costs = {name: {"C1" if "C1" in ALGORITHMS[name].defaults else "C": self.C} for name in names}
        methods = {name: ALGORITHMS[name].load()(**cost) for name, cost in costs.items()}
        if self._favoured is not None:
            return methods
        return {f"svm with C = {LARGER * self.C:g}": SVM(C=LARGER * self.C), **methods}

    def _others(self, run: TrainingRun, plan: CalibrationPlan) -> Iterator[tuple[str, Expansion, FloatArray]]:
        """The methods, each with its model and calibration scores, as far as time allows."""
        for name, method in self._methods().items():
            own = copy.copy(run)
            own.memo, own.trace = {}, []
            model, scores = method.learn_beside(own, plan)
            run.iterations, run.fraction = own.iterations, own.fraction
            if own.ended == "stopped":
                run.ended = "stopped"
                return
            if not own.ended and np.isfinite(scores).all():
                yield name, model, scores
            if run.is_exhausted():
                return


def _is_strict(objective: Objective) -> bool:
    """Whether the highest scores alone decide how well a target is met."""
    return objective.precision_target > STRICT_PRECISION or objective.specificity_target > STRICT_SPECIFICITY


def _kept(mode: JudgeMode, sentence: str) -> Judgement:
    """The SVM, as nothing else was tried."""
    return Judgement(mode=mode, returned="svm", log_loss=None, sharpness=None, methods=[], sentence=sentence)
