"""Which labelled rows train the model and which ones the threshold is chosen on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from solver.choices import FEWEST_OF_A_CLASS, LabeledSplit
from solver.estimators._expansion import Expansion
from solver.estimators._run import TrainingRun
from solver.estimators._scores import approximate_scores, ruler_scores, scores_in_time
from solver.evaluation.matching import matched_scores
from solver.evaluation.splits import (
    grouped_folds,
    is_grouped,
    most_grouped_folds,
    stratified_folds,
    stratified_halves,
)
from solver.parts import PartResult
from solver.typing import FloatArray, IndexArray

FOLDS: Final = 5
FOLDS_STAGE: Final = "folds"
# rows of a class; a half with fewer is no base for a threshold
_FEWEST_IN_A_HALF: Final = 5


@dataclass(frozen=True)
class FoldSettings:
    """C and gamma of a fold, and what brings its scores to the scale of those of the final C and gamma."""

    C: float
    gamma: float
    factor: float = 1.0
    offset: float = 0.0

    def on_common_scale(self, scores: FloatArray) -> FloatArray:
        """Scores that are compared with one threshold over all folds."""
        return self.factor * scores + self.offset


@dataclass(frozen=True)
class CalibrationPlan:
    """The use of the labelled rows.

    Attributes
    ----------
    split : str
        `part`: one half trains, the other one calibrates; `xfit`: all rows train, and each is scored by a model that
        did not see it; `full`: all rows do both, so the scores are optimistic.
    training_rows : int array
        Rows of the final model.
    rows : int array
        Calibration rows.
    folds : tuple of (training rows, held-out rows)
        For `xfit`; empty when the final model itself scores the calibration rows.
    unmeasured : int array
        Those of the training rows that nothing is ever measured on.
    tuned : tuple of FoldSettings
        Of each fold, where C and gamma were tuned: they must not know the labels that the fold leaves out.
    is_ranked : bool
        Whether left-out scores are those that the final model gives at the same rank among the rows of the run's ruler.
    case : int array, optional
        Of each row of the run, the case that it shows (see `solver.repeated_rows`), -1 without a label. None where no
        labelled row is repeated.
    """

    split: LabeledSplit
    training_rows: IndexArray
    rows: IndexArray
    folds: tuple[tuple[IndexArray, IndexArray], ...] = ()
    unmeasured: IndexArray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    tuned: tuple[FoldSettings, ...] = ()
    is_ranked: bool = False
    case: IndexArray | None = None

    @property
    def fold(self) -> IndexArray | None:
        """Fold of each of the training rows; None without folds."""
        if not self.folds:
            return None
        fold = np.empty(len(self.training_rows), dtype=np.intp)
        for number, (_, held_out) in enumerate(self.folds):
            fold[np.searchsorted(self.training_rows, held_out)] = number
        return fold

    def run_of(self, run: TrainingRun, number: int) -> TrainingRun:
        """The run that a fold is trained on."""
        return run.tuned_to(self.tuned[number].C, self.tuned[number].gamma) if self.tuned else run

    def on_common_scale(self, number: int, scores: FloatArray) -> FloatArray:
        """A fold's scores as they are compared with those of other folds."""
        return self.tuned[number].on_common_scale(scores) if self.tuned else scores

    def with_unmeasured(
        self, rows: IndexArray, case: IndexArray | None = None, groups: IndexArray | None = None
    ) -> CalibrationPlan:
        """The same plan with further rows to train on, which calibrate nothing.

        With the case, or the group, of each row of the run none of them is learned where a copy of it, or a row that it
        belongs to, is left out.
        """
        if len(rows) == 0:
            return self
        together = case if groups is None else groups

        def learned_beside(held_out: IndexArray) -> IndexArray:
            return rows if together is None else rows[~np.isin(together[rows], together[held_out])]

        folds = tuple(
            (np.union1d(training_rows, learned_beside(held_out)), held_out) for training_rows, held_out in self.folds
        )
        further = learned_beside(self.rows) if self.split == "part" else rows
        training_rows = np.union1d(self.training_rows, further)
        return replace(self, training_rows=training_rows, folds=folds, unmeasured=further, case=case)

    def with_copies(self, scores: FloatArray) -> FloatArray:
        """Scores of the run's rows, where those of copies are that of the row that stands for them."""
        if self.case is None:
            return scores
        of_case = np.full(int(self.case.max()) + 1, np.nan)
        of_case[self.case[self.rows]] = scores[self.rows]
        return np.where(np.isnan(scores) & (self.case >= 0), of_case[self.case], scores)


def make_plan(
    y: FloatArray,
    labelled: IndexArray,
    split: LabeledSplit,
    seed: int | np.random.Generator,
    groups: IndexArray | None = None,
) -> CalibrationPlan:
    """Split the labelled rows.

    A half that would hold fewer than 5 rows of a class is no base for a threshold: `part` becomes `xfit` then.

    Parameters
    ----------
    y : float64 array of shape (n,)
        +1, -1, or 0 for an unlabelled row.
    labelled : int array
        The rows to use, at least 2 of each class.
    split : str
        What was asked for.
    seed : int or numpy Generator
    groups : int array of shape (n,), optional
        Of all rows: those of one number are on one side of a split.
    """
    truth = y[labelled]
    smaller = int(min(np.count_nonzero(truth > 0), np.count_nonzero(truth < 0)))
    if split == "full":
        return CalibrationPlan("full", labelled, labelled)
    if split == "part" and smaller // 2 >= _FEWEST_IN_A_HALF:
        halves = halves_of(y, labelled, seed, groups, _FEWEST_IN_A_HALF)
        if halves is not None:
            return CalibrationPlan("part", *halves)
    fold = folds_of(truth, min(FOLDS, smaller), seed, None if groups is None else groups[labelled])
    folds = tuple((labelled[fold != k], labelled[fold == k]) for k in range(fold.max() + 1))
    return CalibrationPlan("xfit", labelled, labelled, folds)


def halves_of(
    y: FloatArray,
    labelled: IndexArray,
    seed: int | np.random.Generator,
    groups: IndexArray | None = None,
    fewest: int = FEWEST_OF_A_CLASS,
) -> tuple[IndexArray, IndexArray] | None:
    """Two halves of labelled rows, for which see `stratified_halves`, or of groups of them.

    None where no two halves of whole groups have at least `fewest` rows of each class. The first one can be left out by
    groups in its turn, if any can.
    """
    truth = y[labelled]
    own = None if groups is None else groups[labelled]
    if own is None or not is_grouped(own):
        first, second = stratified_halves(truth, seed)
        return labelled[first], labelled[second]
    half = grouped_folds(truth > 0, own, 2, seed)
    rows = [np.flatnonzero(half == number) for number in range(2)]
    classes = (truth > 0, truth < 0)
    if min(int(np.count_nonzero(of_class[part])) for part in rows for of_class in classes) < fewest:
        return None
    rows.sort(key=lambda part: -min(len(np.unique(own[part][of_class[part]])) for of_class in classes))
    return labelled[rows[0]], labelled[rows[1]]


def folds_of(
    truth: FloatArray, most: int, seed: int | np.random.Generator, groups: IndexArray | None = None
) -> IndexArray:
    """Fold of each row, of whole groups; of rows where there are too few groups for that."""
    if groups is not None and is_grouped(groups):
        rng = np.random.default_rng(seed)
        fold = most_grouped_folds(truth > 0, groups, most, rng)
        if fold is not None:
            return fold
    return stratified_folds(truth, most, seed)


def separate_fold_scores(
    run: TrainingRun,
    plan: CalibrationPlan,
    model: Expansion | None,
    train_fold: Callable[[TrainingRun, IndexArray], Expansion],
) -> FloatArray:
    """Scores as `calibration_scores` gives, for folds that share nothing: each is a part of its own.

    Parameters
    ----------
    run : TrainingRun
    plan : CalibrationPlan
        With folds.
    model : Expansion or None
        Trained on the plan's training rows; None where a part is all that is wanted.
    train_fold : callable
        Gets the run to train on, and the fold's training rows.
    """
    run.kernel.forget_rows()  # each part has rows of its own

    def compute(numbers: Sequence[int]) -> list[PartResult | None]:
        results: list[PartResult | None] = []
        for number in numbers:
            training_rows, _ = plan.folds[number]
            if run.is_exhausted():
                results.append(None)
                continue
            own = plan.tuned[number] if plan.tuned else None
            apart = run.apart() if own is None else run.apart(**run.tuned(own.C, own.gamma))
            fold_model = train_fold(apart, training_rows)
            if apart.is_exhausted():
                run.ended = apart.ended or run.ended
                results.append(None)
                continue
            results.append(
                {
                    **_fold_scores(apart, plan, number, fold_model),
                    "iterations": np.array([apart.iterations], dtype=np.int64),
                    "met_a_limit": np.array([bool(apart.ended)], dtype=np.uint8),
                }
            )
            _report_fold(run, number, plan)
        return results

    computed = run.parts.compute(FOLDS_STAGE, len(plan.folds), compute)
    ruler = _ruler_of(run, plan, model)
    scores = np.full(len(run.y), np.nan)
    for (_, held_out), result in zip(plan.folds, computed, strict=True):
        if result is not None:
            scores[held_out] = _comparable(run, result, ruler)
            run.iterations += int(result["iterations"][0])
            if result["met_a_limit"][0]:
                run.ended = run.ended or "solver_limit"
    in_order: FloatArray = scores[plan.rows]
    return in_order


def _fold_scores(own: TrainingRun, plan: CalibrationPlan, number: int, fold_model: Expansion) -> PartResult:
    """The left-out scores of a fold; where they are to be ranked, as they are, and those of the ruler."""
    _, held_out = plan.folds[number]
    # the solver's tolerance leaves more open than the rounding of these scores does
    scores = approximate_scores(own, fold_model, held_out)
    if plan.is_ranked:
        return {"scores": scores, "ruler": ruler_scores(own, fold_model)}
    return {"scores": plan.on_common_scale(number, scores)}


def _ruler_of(run: TrainingRun, plan: CalibrationPlan, model: Expansion | None) -> FloatArray | None:
    """The final model's scores of the ruler; None where left-out scores are not ranked."""
    return ruler_scores(run, model) if plan.is_ranked and model is not None else None


def _comparable(run: TrainingRun, fold: PartResult, ruler: FloatArray | None) -> FloatArray:
    """A fold's left-out scores as one threshold parts them together with those of other folds."""
    scores: FloatArray = fold["scores"]
    return scores if ruler is None else matched_scores(scores, fold["ruler"], ruler, run.limits.tol)


def _report_fold(run: TrainingRun, number: int, plan: CalibrationPlan) -> None:
    # how much is still to come depends on the method: approach the end without reaching it
    run.progress(run.fraction + 0.1 * (1 - run.fraction), fold=number + 1, folds=len(plan.folds))


def calibration_scores(
    run: TrainingRun,
    plan: CalibrationPlan,
    model: Expansion,
    train_fold: Callable[[TrainingRun, int, IndexArray], Expansion],
) -> FloatArray:
    """Scores of the plan's calibration rows by a model that did not see them (`full`: by `model`, which did).

    Parameters
    ----------
    run : TrainingRun
    plan : CalibrationPlan
    model : Expansion
        Trained on the plan's training rows.
    train_fold : callable
        Gets the run to train on, the fold's number and its training rows.

    Returns
    -------
    float64 array in the order of `plan.rows`; NaN where the run was over before the row's fold was trained
    """
    if not plan.folds:
        return scores_in_time(run, model, plan.rows)
    ruler = _ruler_of(run, plan, model)
    scores = np.full(len(run.y), np.nan)
    for number, (training_rows, held_out) in enumerate(plan.folds):
        if run.is_exhausted():
            break
        own = plan.run_of(run, number)
        spent = own.iterations
        fold_model = train_fold(own, number, training_rows)
        if own is not run:
            run.iterations += own.iterations - spent
            run.ended = own.ended
        if run.is_exhausted():
            break
        scores[held_out] = _comparable(run, _fold_scores(own, plan, number, fold_model), ruler)
        _report_fold(run, number, plan)
    result: FloatArray = scores[plan.rows]
    return result
