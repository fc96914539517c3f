"""PSVM: a semi-supervised SVM with precision and recall preferences."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import numpy as np

from solver.algorithms import ALGORITHMS
from solver.choices import NegativeRule, SoftLabels, ThresholdRule
from solver.estimators._base import ThresholdClassifier
from solver.estimators._calibration import CalibrationPlan, calibration_scores
from solver.estimators._choosing import Learned, choose
from solver.estimators._expansion import Expansion
from solver.estimators._run import TrainingRun
from solver.estimators._scores import approximate_scores, exact_scores, remember_scores
from solver.estimators.parameters import CostParameters, EngineParameter, ModeParameter
from solver.evaluation.counts import ConfusionCounts, confusion
from solver.operating_point import ChosenThreshold, Objective
from solver.typing import BoolArray, FloatArray, IndexArray

# rows below θ₋ must be negative with this share, by the calibration rows (negative_rule="npv")
_NEGATIVE_PREDICTIVE_VALUE: Final = 0.95


@dataclass(frozen=True)
class _SoftLabels:
    """The unlabelled rows in the training set, with the labels that the classifier gave them."""

    rows: IndexArray
    y: FloatArray

    @property
    def key(self) -> tuple[bytes, bytes]:
        """Equal exactly when the training sets, hence (training being deterministic) the classifiers, are equal."""
        return self.rows.tobytes(), self.y.tobytes()


@dataclass
class _Trajectory:
    """The method on some labelled rows: its soft labels and its last model.

    Each fold of the cross-fit has one of its own. Soft labels that all rows had a say in would tell a fold's model the
    labels of the rows that it leaves out. What a fold learns from its left-out rows is one number a round at most: they
    take part in the models by which the other folds' rows are scored, on which its θ₊ is chosen.
    """

    labelled: IndexArray
    held_out: IndexArray
    soft: _SoftLabels = field(default_factory=lambda: _SoftLabels(np.zeros(0, dtype=np.intp), np.zeros(0)))
    model: Expansion | None = None
    trained_on: tuple[bytes, bytes] | None = None
    unlabelled_scores: FloatArray = field(default_factory=lambda: np.zeros(0))


@dataclass(kw_only=True, eq=False, repr=False)
class PSVM(EngineParameter, ModeParameter, CostParameters, ThresholdClassifier):
    """Precision/recall preference semi-supervised SVM.

    Repeats: train an SVM on the labelled rows and the rows labelled so far; move its threshold θ₊ so that the
    calibration rows meet the preference; label the unlabelled rows above θ₊ positive and those below θ₋ negative. The
    round whose threshold serves the objective best on the calibration rows is kept.

    The defaults are the best measured ones: cross-fitted calibration scores, best F1 under the preference, soft
    negatives in the class ratio of the labelled rows, soft labels at a tenth of the cost. `PSVM.paper()` gives the
    paper's settings. Most of the gain over a plain SVM comes from the threshold;
    `report_.controls["no_unlabelled"]` shows the same threshold rule without any unlabelled row.

    Parameters
    ----------
    objective : str, dict or Objective, default "f1"
        The preference: `{"kind": "precision", "target": 0.9}`, `{"kind": "recall", "target": 0.8}`, both at once
        (`precision_recall`), or what shall be best (`f1`, `f_beta`, `cost`). See `solver.operating_point.Objective`.
    threshold_rule : str, default "auto"
        Rule for θ₊: `auto`, `f1max`, `paper`, `lcb`, `fixed-sequence` or `zero` (θ₊ = θ₋ = 0). See
        `solver.operating_point.choose_threshold`. `fixed-sequence`, which a confidence in the objective implies, keeps
        half of the labelled rows out of training and out of the choice of the round, and tests the final model on
        them.
    labeled_split : {"xfit", "part", "full"}, default "xfit"
        `part`: one half of the labelled rows trains, the other one calibrates. `full`: all rows do both (optimistic).
        `xfit`: all rows train, and calibrate through 5 models that each leave a fold out, round by round with soft
        labels of their own. `part` becomes `xfit` when a half would hold fewer than 5 rows of a class.
    soft_labels : {"inc", "rec"}, default "inc"
        Incremental: a soft label stays. Recomputed: every round labels all unlabelled rows anew.
    negative_rule : {"ratio", "meanneg", "npv"}, default "ratio"
        θ₋: such that soft negatives and positives stand in the class ratio of the labelled rows; the mean score of the
        negative calibration rows; the largest threshold with a negative predictive value of 0.95 below it. Never above
        θ₊.
    C_soft : float, default 0.1
        Cost of a margin error of a softly labelled row, as a multiple of C.
    max_add : int, optional
        Most rows labelled in one round (incremental labels), the most confident ones first, in the proportion found.
    max_rounds : int, default 50

    Attributes
    ----------
    report_ : Report
        `report_.rounds` is the trace.
    best_round_ : int
        The round kept, from 1.

    See Also
    --------
    solver.estimators.parameters : Parameters that classifiers share, and the attributes of a fitted one.

    Notes
    -----
    Measures on the calibration rows are optimistic: the threshold and the round were both chosen on them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from solver.estimators import PSVM
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> y = np.where(np.arange(len(y)) % 10 == 0, y, -1)
    >>> psvm = PSVM(objective={"kind": "recall", "target": 0.9}, random_state=0).fit(X / X.max(axis=0), y)
    >>> psvm.status_
    'met'
    """

    declaration: ClassVar = ALGORITHMS["psvm"]

    soft_labels: SoftLabels = declaration.defaults["soft_labels"]
    negative_rule: NegativeRule = declaration.defaults["negative_rule"]
    C_soft: float = declaration.defaults["C_soft"]
    max_add: int | None = declaration.defaults["max_add"]
    max_rounds: int = declaration.defaults["max_rounds"]

    @classmethod
    def paper(cls, **parameters: Any) -> PSVM:
        """The paper's settings (PART, its adjusting rule, mean negative score, full cost of soft labels).

        Parameters
        ----------
        **parameters
            Override or add to them.
        """
        settings: dict[str, Any] = {
            "labeled_split": "part",
            "threshold_rule": "paper",
            "soft_labels": "inc",
            "negative_rule": "meanneg",
            "C_soft": 1.0,
        }
        return cls(**{**settings, **parameters})

    def _learn(self, run: TrainingRun, plan: CalibrationPlan, objective: Objective, rule: ThresholdRule) -> Learned:
        main = _Trajectory(plan.training_rows, np.zeros(0, dtype=np.intp))
        folds = [_Trajectory(training_rows, held_out) for training_rows, held_out in plan.folds]
        seen = {main.soft.key}
        rounds: list[dict[str, Any]] = []
        first: tuple[Expansion, FloatArray] | None = None
        best: tuple[tuple[float, ...], Expansion, FloatArray, int] | None = None
        for number in range(1, self.max_rounds + 1):
            started, spent = time.monotonic(), run.iterations
            model, scores = self._train_round(run, plan, main, folds)
            finished = not run.ended and bool(np.isfinite(scores).all())
            if first is None:
                first = (model, scores)
            elif not finished:
                break  # an unfinished round is not compared with finished ones
            point = choose(run, plan, scores, objective, rule)
            rank = (float(point.status == "met"), *objective.rank(point.counts))
            if best is None or rank > best[0]:
                best = (rank, model, scores, number)
            if not finished:
                break
            old = main.soft
            new, theta_minus = self._relabelled(run, plan, main, scores, point, rule)
            rounds.append(
                {
                    **_round_measures(run.y[plan.rows], scores, point, theta_minus),
                    "round": number,
                    "positives_added": int(np.count_nonzero(new.y > 0) - np.count_nonzero(old.y > 0)),
                    "negatives_added": int(np.count_nonzero(new.y < 0) - np.count_nonzero(old.y < 0)),
                    "soft_positives": int(np.count_nonzero(old.y > 0)),
                    "soft_negatives": int(np.count_nonzero(old.y < 0)),
                    "iterations": run.iterations - spent,
                    "seconds": time.monotonic() - started,
                }
            )
            # the number of rounds is not known beforehand: approach the end without reaching it
            if new.key in seen or run.progress(1 - 0.5**number, **rounds[-1]):
                break
            seen.add(new.key)
            main.soft = new
            for fold in folds:
                of_others = ~np.isin(plan.rows, fold.held_out)
                others = replace(plan, training_rows=fold.labelled, rows=plan.rows[of_others])
                point = choose(run, others, scores[of_others], objective, rule)
                fold.soft, _ = self._relabelled(run, others, fold, scores[of_others], point, rule)
        if first is None or best is None:
            raise AssertionError("max_rounds is at least 1, so a first round was run")
        self.best_round_ = best[3]
        if not plan.folds and run.ended != "stopped":
            rescored = self._rescored(run, plan, *first, objective, rule)
            scores = rescored if best[3] == 1 else self._rescored(run, plan, best[1], best[2], objective, rule)
            return Learned(best[1], scores, first[0], rescored, rounds)
        return Learned(best[1], best[2], *first, rounds)

    def _train_round(
        self, run: TrainingRun, plan: CalibrationPlan, main: _Trajectory, folds: list[_Trajectory]
    ) -> tuple[Expansion, FloatArray]:
        """Train each trajectory on its labelled rows and soft labels; score the calibration and the unlabelled rows.

        All scores are as accurate as the solver. Once the run has ended the latter have none.
        """
        model = self._trained(run, main)
        if not plan.folds:
            if run.ended:
                return model, calibration_scores(run, plan, model, lambda *_: model)
            # at once, so that kernel rows run over all of them from the start
            model = main.model = remember_scores(run, model, np.concatenate([plan.rows, run.unlabelled]))
            main.unlabelled_scores = approximate_scores(run, model, run.unlabelled)
            return model, approximate_scores(run, model, plan.rows)

        scores = calibration_scores(run, plan, model, lambda own, number, _: self._trained(own, folds[number]))
        if not run.ended:
            for number, trajectory in enumerate((*folds, main)):
                if trajectory.model is None:
                    raise AssertionError("a run that has not ended has trained all of its trajectories")
                own = run if trajectory is main else plan.run_of(run, number)
                trajectory.model = remember_scores(own, trajectory.model, run.unlabelled)
                of_unlabelled = approximate_scores(own, trajectory.model, run.unlabelled)
                trajectory.unlabelled_scores = (
                    of_unlabelled if trajectory is main else plan.on_common_scale(number, of_unlabelled)
                )
            model = main.model or model
        return model, scores

    def _trained(self, run: TrainingRun, trajectory: _Trajectory) -> Expansion:
        """The SVM on the trajectory's labelled rows and soft labels; its last one where these are the same."""
        soft, key = trajectory.soft, trajectory.soft.key
        if trajectory.model is None or trajectory.trained_on != key:
            rows = np.concatenate([trajectory.labelled, soft.rows])
            y = np.concatenate([run.y[trajectory.labelled], soft.y])
            hi = self._labelled_cost(run) * run.cost[rows]
            hi[len(trajectory.labelled) :] *= self.C_soft
            trajectory.model = run.train(rows, y, hi, start=trajectory.model)
            trajectory.trained_on = key
        return trajectory.model

    def _relabelled(
        self,
        run: TrainingRun,
        plan: CalibrationPlan,
        trajectory: _Trajectory,
        scores: FloatArray,
        point: ChosenThreshold,
        rule: ThresholdRule,
    ) -> tuple[_SoftLabels, float]:
        """The soft labels of the trajectory's next round, and θ₋."""
        positive, negative, theta_minus = self._soft_classes(
            run, plan, point, scores, trajectory.unlabelled_scores, rule
        )
        soft = self._next_soft_labels(run, trajectory.soft, positive, negative, trajectory.unlabelled_scores)
        return soft, theta_minus

    def _rescored(
        self,
        run: TrainingRun,
        plan: CalibrationPlan,
        model: Expansion,
        scores: FloatArray,
        objective: Objective,
        rule: ThresholdRule,
    ) -> FloatArray:
        """The scores with exact ones around the threshold, which the model's own decisions then agree with."""
        threshold = choose(run, plan, scores, objective, rule).threshold
        near = np.abs(scores - threshold) <= self.tol
        rescored = scores.copy()
        rescored[near] = exact_scores(run, model, plan.rows[near])
        return rescored

    def _soft_classes(
        self,
        run: TrainingRun,
        plan: CalibrationPlan,
        point: ChosenThreshold,
        scores: FloatArray,
        unlabelled_scores: FloatArray,
        rule: ThresholdRule,
    ) -> tuple[BoolArray, BoolArray, float]:
        """Which unlabelled rows are above θ₊, which below θ₋, and θ₋ itself (paper, equation 8)."""
        theta_plus = point.threshold
        positive = unlabelled_scores > theta_plus
        if rule == "zero":
            return positive, ~positive, theta_plus
        truth = run.y[plan.rows]
        if self.negative_rule == "ratio":
            labels = run.y[np.setdiff1d(np.union1d(plan.training_rows, plan.rows), plan.unmeasured)]
            ratio = np.count_nonzero(labels < 0) / np.count_nonzero(labels > 0)
            wanted = min(round(np.count_nonzero(positive) * ratio), int(np.count_nonzero(~positive)))
            if not wanted:
                return positive, np.zeros(len(positive), dtype=bool), -np.inf
            # the lowest scores, of equal ones the first; every positive row scores above all others
            theta_minus = float(np.partition(unlabelled_scores, wanted - 1)[wanted - 1])
            negative = unlabelled_scores < theta_minus
            ties = np.flatnonzero(unlabelled_scores == theta_minus)
            negative[ties[: wanted - np.count_nonzero(negative)]] = True
            return positive, negative, theta_minus
        if self.negative_rule == "meanneg":
            negatives = scores[truth < 0]
            theta_minus = float(np.mean(negatives)) if len(negatives) else -np.inf
        else:
            theta_minus = _npv_threshold(scores, truth)
        theta_minus = min(theta_minus, theta_plus)
        return positive, ~positive & (unlabelled_scores < theta_minus), theta_minus

    def _next_soft_labels(
        self,
        run: TrainingRun,
        soft: _SoftLabels,
        positive: BoolArray,
        negative: BoolArray,
        unlabelled_scores: FloatArray,
    ) -> _SoftLabels:
        """The soft labels of the next round."""
        unlabelled = run.unlabelled
        chosen = positive | negative
        if self.soft_labels == "rec":
            rows = unlabelled[chosen]
            return _SoftLabels(rows, np.where(positive[chosen], 1.0, -1.0))
        is_soft = np.zeros(len(run.y), dtype=bool)
        is_soft[soft.rows] = True
        chosen &= ~is_soft[unlabelled]
        picked = np.flatnonzero(chosen)
        if self.max_add is not None and len(picked) > self.max_add:
            above = picked[positive[picked]]
            below = picked[negative[picked]]
            most_positive = round(self.max_add * len(above) / len(picked))
            above = above[np.argsort(-unlabelled_scores[above], kind="stable")][:most_positive]
            below = below[np.argsort(unlabelled_scores[below], kind="stable")][: self.max_add - most_positive]
            picked = np.sort(np.concatenate([above, below]))
        return _SoftLabels(
            np.concatenate([soft.rows, unlabelled[picked]]),
            np.concatenate([soft.y, np.where(positive[picked], 1.0, -1.0)]),
        )


def _npv_threshold(scores: FloatArray, truth: FloatArray) -> float:
    """Largest θ with a negative predictive value of 0.95 among the calibration rows below it; -inf if none."""
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    share = np.cumsum(truth[order] < 0) / np.arange(1, len(order) + 1)
    last_of_tie = np.append(ordered[1:] != ordered[:-1], True)
    enough = np.flatnonzero(last_of_tie & (share >= _NEGATIVE_PREDICTIVE_VALUE))
    if len(enough) == 0:
        return -np.inf
    last = int(enough[-1])
    return float(np.nextafter(ordered[last], np.inf))


def _round_measures(
    truth: FloatArray, scores: FloatArray, point: ChosenThreshold, theta_minus: float
) -> dict[str, Any]:
    """What the calibration rows say about a round."""
    counts: ConfusionCounts = point.counts
    below = scores < theta_minus
    negatives_below = confusion(-truth[below], np.ones(int(below.sum()), dtype=bool))
    return {
        "theta_plus": point.threshold,
        "theta_minus": theta_minus if np.isfinite(theta_minus) else None,
        "precision": counts.precision,
        "recall": counts.recall,
        "f1": counts.f1,
        "purity_positive": counts.precision if counts.predicted_positives else None,
        "purity_negative": negatives_below.precision if below.any() else None,
    }
