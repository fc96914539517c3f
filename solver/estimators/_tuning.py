"""Choice of C and gamma by cross-validation on labelled rows, for the objective."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, groupby
from typing import Any, Final

import numpy as np

from solver.choices import Tune
from solver.estimators._calibration import FOLDS, FoldSettings, folds_of
from solver.estimators._run import TrainingRun
from solver.kernels.parallel import thread_count
from solver.operating_point import Objective, choose_threshold
from solver.parts import PartResult
from solver.report import TuningCell, TuningReport
from solver.smo import Solution
from solver.typing import BoolArray, FloatArray, IndexArray

STAGE: Final = "tuning"
NESTED_ROWS: Final = 2000
"""Up to so many labelled rows a fold's choice is made by models that have not seen the fold."""

C_GRID: Final = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
SHARE_OF_FIT: Final = 0.5
"""Of a fit, as it tells its progress."""
# factors on the gamma that the estimator would use otherwise, the nearest ones first: the first of equals is taken
GAMMA_FACTORS: Final = (1.0, 0.25, 4.0, 0.0625, 16.0)


@dataclass(frozen=True)
class Tuning:
    """What was chosen, and what every cell of the grid reached.

    Attributes
    ----------
    C, gamma : float
    rows : int
        Labelled rows that chose.
    cells : list of TuningCell
    folds : tuple of FoldSettings
        What is chosen for each fold, by the scores of the other folds' rows.
    """

    C: float
    gamma: float
    rows: int
    cells: list[TuningCell]
    folds: tuple[FoldSettings, ...]

    def report(self) -> TuningReport:
        """What the report says of it."""
        return TuningReport(self.C, self.gamma, self.rows, self.cells)


def tune(
    run: TrainingRun,
    rows: IndexArray,
    objective: Objective,
    what: Tune,
    C: float,
    seed: np.random.Generator,
    fold: IndexArray | None = None,
) -> Tuning:
    """Search the grid with the SVM on labelled rows.

    Each cell is worth the objective's utility at its best threshold, on out-of-fold scores of the same folds. Along C
    every solution starts from the one before.

    What a fold takes is chosen by the scores of the other folds' rows. Models that left out one fold have learned from
    the fold that the choice is for, and tell a little of its labels; so up to `NESTED_ROWS` rows each two folds are
    left out together, too, and those models score the one for the choice of the other.

    Parameters
    ----------
    run : TrainingRun
        Its kernel parameters give the gamma in the middle of the grid. Its clock and callback go on; when it is
        stopped or out of time, the best cell until then is taken.
    rows : int array
        Labelled rows to use, at least 2 of each class.
    objective : Objective
    what : {"C", "C-gamma"}
    C : float
        Taken when no cell was finished.
    seed : numpy Generator
        For the folds, unless they are given.
    fold : int array, optional
        Fold of each row.
    """
    truth = run.y[rows]
    measured = fold is not None
    if fold is None:
        smaller = int(min(np.count_nonzero(truth > 0), np.count_nonzero(truth < 0)))
        own = None if run.groups is None else run.groups[rows]
        fold = folds_of(truth, min(FOLDS, smaller), seed, own)
    middle = run.kernel_parameters.gamma
    with_gamma = what == "C-gamma" and run.kernel_parameters.kind != "linear"
    gammas = [middle * factor for factor in (GAMMA_FACTORS if with_gamma else (1.0,))]
    n_folds = int(fold.max()) + 1
    # With two folds nothing would be left to learn from.
    is_nested = measured and n_folds > 2 and len(rows) <= NESTED_ROWS
    singles = [(number,) for number in range(n_folds)]
    grid = _Grid(run, rows, fold, gammas, [*singles, *(combinations(range(n_folds), 2) if is_nested else ())])
    results = run.parts.compute(STAGE, len(grid.units), grid.compute, at_once=grid.at_once)
    cells: list[TuningCell] = []
    tried: list[_Tried] = []
    for gamma, scores in zip(gammas, grid.scores(results), strict=True):
        if scores is None:
            continue
        for value, by_left_out in zip(C_GRID, scores, strict=True):
            utility = None
            scores_of_cell = _together(by_left_out, fold, singles)
            if np.isfinite(scores_of_cell).all():
                without = None
                if is_nested:
                    without = [
                        _together(
                            by_left_out, fold, [pair for pair in by_left_out if len(pair) == 2 and number in pair]
                        )
                        for number in range(n_folds)
                    ]
                tried.append(_Tried(value, gamma, scores_of_cell, without))
                utility = _utility(scores_of_cell, truth, objective, run.limits.tol)
            cells.append(TuningCell(value, gamma, utility))
    run.iterations += sum(int(result["iterations"][0]) for result in results if result is not None)
    if not tried:
        return Tuning(C, middle, len(rows), cells, tuple(FoldSettings(C, middle) for _ in range(n_folds)))
    best = max(tried, key=lambda each: _utility(each.scores, truth, objective, run.limits.tol))
    folds = []
    for number in range(n_folds):
        others = fold != number

        def worth(each: _Tried, number: int = number, others: BoolArray = others) -> float:
            scores = each.scores_for(number)[others]
            return (
                _utility(scores, truth[others], objective, run.limits.tol) if np.isfinite(scores).all() else -math.inf
            )

        folds.append(max(tried, key=worth).settings(best, number, others))
    return Tuning(best.C, best.gamma, len(rows), cells, tuple(folds))


@dataclass(frozen=True)
class _Tried:
    """A cell of the grid with its left-out scores."""

    C: float
    gamma: float
    scores: FloatArray
    without: Sequence[FloatArray] | None
    """For each fold the scores of the other folds' rows, by models that left out both; None if there are none."""

    def scores_for(self, number: int) -> FloatArray:
        """Scores of the other folds' rows by which a fold's settings are chosen."""
        return self.scores if self.without is None else self.without[number]

    def settings(self, final: _Tried, number: int, rows: BoolArray) -> FoldSettings:
        """Settings of a fold; on these rows scores get mean and standard deviation of those of the final cell."""
        if self is final:
            return FoldSettings(self.C, self.gamma)
        mine, others = self.scores_for(number)[rows], final.scores_for(number)[rows]
        if not np.isfinite(mine).all() or not np.isfinite(others).all():
            return FoldSettings(final.C, final.gamma)
        spread = float(np.std(mine))
        factor = float(np.std(others)) / spread if spread > 0 and np.std(others) > 0 else 1.0
        return FoldSettings(self.C, self.gamma, factor, float(np.mean(others)) - factor * float(np.mean(mine)))


def _utility(scores: FloatArray, truth: FloatArray, objective: Objective, resolution: float) -> float:
    """What scores are worth to the objective at their best threshold."""
    return float(objective.utility(choose_threshold(scores, truth, objective, resolution=resolution).counts))


def _together(
    by_left_out: Mapping[tuple[int, ...], FloatArray],
    fold: IndexArray,
    chosen: Sequence[tuple[int, ...]],
) -> FloatArray:
    """Scores of all rows that some of the left-out folds have; NaN elsewhere."""
    scores = np.full(len(fold), np.nan)
    for left_out in chosen:
        scores[np.isin(fold, left_out)] = by_left_out[left_out]
    return scores


class _Grid:
    """The parts of the search: the gammas, whose folds share kernel rows; or the folds, if there is only one gamma.

    Parameters
    ----------
    run : TrainingRun
    rows : int array
        Labelled rows to use.
    fold : int array
        Fold of each of these.
    gammas : list of float
    left_out : list of tuple of int
        The folds that are left out together.
    """

    def __init__(
        self,
        run: TrainingRun,
        rows: IndexArray,
        fold: IndexArray,
        gammas: list[float],
        left_out: list[tuple[int, ...]],
    ) -> None:
        self._run, self._rows, self._gammas, self._left_out = run, rows, gammas, left_out
        self._held_out = [np.isin(fold, folds) for folds in left_out]
        self._costs = [C * run.cost[rows] for C in C_GRID]
        self._kernel: Any = None
        self._done = 0
        self._cells = len(gammas) * len(self._held_out) * len(C_GRID)
        everything = tuple(range(len(self._held_out)))
        self.units = [(gamma, everything) for gamma in gammas]
        """Gamma of each part, and which of `left_out` it leaves out in turn."""
        self.at_once = 1
        if len(gammas) == 1 and run.parts.are_shared():
            self._kernel = self._run_with(gammas[0]).kernel_of_folds(self._held_out, self._costs)
            if self._kernel is not None:
                self.units = [(gammas[0], (number,)) for number in everything]
                self.at_once = thread_count()

    def compute(self, numbers: Sequence[int]) -> list[PartResult | None]:
        """Out-of-fold scores for each C of the grid, NaN where not converged."""
        results: list[PartResult | None] = []
        for gamma, group in groupby(numbers, key=lambda number: self.units[number][0]):
            chosen = list(group)
            if self._run.is_exhausted():
                results += [None] * len(chosen)
                continue
            inner = self._run_with(gamma)
            folds = [number for unit in chosen for number in self.units[unit][1]]
            held_out = [self._held_out[number] for number in folds]
            solved = inner.solve_along_costs(held_out, self._costs, self._kernel, partial(self._tell, inner))
            self._done += len(folds) * len(C_GRID)
            self._tell(inner, 0)
            paths = dict(zip(folds, solved, strict=True))
            results += [
                self._result(inner, {number: paths[number] for number in self.units[unit][1]}) for unit in chosen
            ]
            if inner.is_exhausted():
                self._run.ended = inner.ended if inner.ended == "stopped" else self._run.ended
        return results

    def _tell(self, inner: TrainingRun, begun: int) -> None:
        """Report how far the search is, as each cell of a fold begins."""
        done = self._done + begun
        self._run.progress(SHARE_OF_FIT * done / self._cells, tuned=done, to_tune=self._cells)
        inner.fraction = self._run.fraction

    def scores(self, results: Sequence[PartResult | None]) -> list[list[dict[tuple[int, ...], FloatArray]] | None]:
        """Put the parts together: for each gamma, and each C, the scores of the rows that were left out, by the folds.

        NaN where no part has computed them; None if none of the gamma was computed.
        """
        by_gamma: dict[float, list[dict[tuple[int, ...], FloatArray]]] = {}
        for (gamma, numbers), result in zip(self.units, results, strict=True):
            if result is None:
                continue
            if gamma not in by_gamma:
                nothing = {
                    folds: np.full(int(held_out.sum()), np.nan)
                    for folds, held_out in zip(self._left_out, self._held_out, strict=True)
                }
                by_gamma[gamma] = [dict(nothing) for _ in C_GRID]
            ends = np.cumsum([int(self._held_out[number].sum()) for number in numbers])
            for scores, computed in zip(by_gamma[gamma], result["scores"], strict=True):
                scores.update(
                    zip((self._left_out[number] for number in numbers), np.split(computed, ends[:-1]), strict=True)
                )
        return [by_gamma.get(gamma) for gamma in self._gammas]

    def _run_with(self, gamma: float) -> TrainingRun:
        run, rows = self._run, self._rows
        parameters = replace(run.kernel_parameters, gamma=gamma)
        return run.apart(X=run.X[rows], y=run.y[rows], cost=run.cost[rows], kernel_parameters=parameters)

    def _result(self, run: TrainingRun, paths: Mapping[int, Sequence[Solution]]) -> PartResult:
        """Scores of shape (grid, left-out rows of the paths, one after the other)."""
        scores = []
        for number, path in paths.items():
            rows = self._held_out[number]
            of_path = np.full((len(C_GRID), int(rows.sum())), np.nan)
            for position, solution in enumerate(path):
                if solution.status == "optimal":
                    of_path[position] = (run.y * (solution.gradient + 1.0) + solution.b)[rows]
            scores.append(of_path)
        iterations = sum(solution.iterations for path in paths.values() for solution in path)
        return {
            "scores": np.concatenate(scores, axis=1),
            "iterations": np.array([iterations], dtype=np.int64),
        }
