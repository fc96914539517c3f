"""Choice of C and gamma by cross-validation on labelled rows, for the objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from solver.choices import Tune
from solver.estimators._calibration import FOLDS, FoldSettings
from solver.estimators._run import TrainingRun
from solver.evaluation.splits import stratified_folds
from solver.kernels.parallel import thread_count
from solver.operating_point import Objective, choose_threshold
from solver.parts import PartResult
from solver.smo import Solution

STAGE: Final = "tuning"

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
    cells : list of dict
        `C`, `gamma`, `utility` (None when the solver did not converge there).
    folds : tuple of FoldSettings
        What is chosen for each fold, by the left-out scores of the other folds' rows.
    """

    C: float
    gamma: float
    cells: list[dict[str, Any]]
    folds: tuple[FoldSettings, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON form, as it stands in reports."""
        return {"C": self.C, "gamma": self.gamma, "cells": self.cells}


def tune(
    run: TrainingRun,
    rows: NDArray[np.intp],
    objective: Objective,
    what: Tune,
    C: float,
    seed: np.random.Generator,
    fold: NDArray[np.intp] | None = None,
) -> Tuning:
    """Search the grid with the SVM on labelled rows.

    Each cell is worth the objective's utility at its best threshold, on out-of-fold scores of the same folds. Along C
    every solution starts from the one before.

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
    if fold is None:
        smaller = int(min(np.count_nonzero(truth > 0), np.count_nonzero(truth < 0)))
        fold = stratified_folds(truth, min(FOLDS, smaller), seed)
    middle = run.kernel_parameters.gamma
    with_gamma = what == "C-gamma" and run.kernel_parameters.kind != "linear"
    gammas = [middle * factor for factor in (GAMMA_FACTORS if with_gamma else (1.0,))]
    grid = _Grid(run, rows, fold, gammas)
    results = run.parts.compute(STAGE, len(grid.units), grid.compute, at_once=grid.at_once)
    cells: list[dict[str, Any]] = []
    tried: list[_Tried] = []
    for gamma, scores in zip(gammas, grid.scores(results), strict=True):
        if scores is None:
            continue
        for value, scores_of_cell in zip(C_GRID, scores, strict=True):
            utility = None
            if np.isfinite(scores_of_cell).all():
                tried.append(_Tried(value, gamma, scores_of_cell))
                utility = _utility(scores_of_cell, truth, objective, run.limits.tol)
            cells.append({"C": value, "gamma": gamma, "utility": utility})
    run.iterations += sum(int(result["iterations"][0]) for result in results if result is not None)
    if not tried:
        return Tuning(C, middle, cells, tuple(FoldSettings(C, middle) for _ in range(int(fold.max()) + 1)))
    best = max(tried, key=lambda each: _utility(each.scores, truth, objective, run.limits.tol))
    folds = []
    for number in range(int(fold.max()) + 1):
        others = fold != number
        # The models that gave these scores have seen the fold's labels; what it learns of them is one choice among few.
        own = max(tried, key=lambda each: _utility(each.scores[others], truth[others], objective, run.limits.tol))
        folds.append(own.settings(best, others))
    return Tuning(best.C, best.gamma, cells, tuple(folds))


@dataclass(frozen=True)
class _Tried:
    """A cell of the grid with its left-out scores."""

    C: float
    gamma: float
    scores: NDArray[np.float64]

    def settings(self, final: _Tried, rows: NDArray[np.bool_]) -> FoldSettings:
        """Settings of a fold; on these rows scores get mean and standard deviation of those of the final cell."""
        if self is final:
            return FoldSettings(self.C, self.gamma)
        mine, others = self.scores[rows], final.scores[rows]
        spread = float(np.std(mine))
        factor = float(np.std(others)) / spread if spread > 0 and np.std(others) > 0 else 1.0
        return FoldSettings(self.C, self.gamma, factor, float(np.mean(others)) - factor * float(np.mean(mine)))


def _utility(scores: NDArray[np.float64], truth: NDArray[np.float64], objective: Objective, resolution: float) -> float:
    """What scores are worth to the objective at their best threshold."""
    return float(objective.utility(choose_threshold(scores, truth, objective, resolution=resolution).counts))


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
    """

    def __init__(self, run: TrainingRun, rows: NDArray[np.intp], fold: NDArray[np.intp], gammas: list[float]) -> None:
        self._run, self._rows, self._fold, self._gammas = run, rows, fold, gammas
        self._held_out = [fold == number for number in range(int(fold.max()) + 1)]
        self._costs = [C * run.cost[rows] for C in C_GRID]
        self._kernel: Any = None
        self._done = 0
        self._cells = len(gammas) * len(self._held_out) * len(C_GRID)
        everything = tuple(range(len(self._held_out)))
        self.units = [(gamma, everything) for gamma in gammas]
        """Gamma and folds of each part."""
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

    def scores(self, results: Sequence[PartResult | None]) -> list[NDArray[np.float64] | None]:
        """Put the parts together: for each gamma scores of shape (grid, rows), None if no part of it was computed."""
        by_gamma: dict[float, NDArray[np.float64]] = {}
        for (gamma, folds), result in zip(self.units, results, strict=True):
            if result is not None:
                scores = by_gamma.setdefault(gamma, np.full((len(C_GRID), len(self._rows)), np.nan))
                scores[:, np.isin(self._fold, folds)] = result["scores"]
        return [by_gamma.get(gamma) for gamma in self._gammas]

    def _run_with(self, gamma: float) -> TrainingRun:
        run, rows = self._run, self._rows
        parameters = replace(run.kernel_parameters, gamma=gamma)
        return run.apart(X=run.X[rows], y=run.y[rows], cost=run.cost[rows], kernel_parameters=parameters)

    def _result(self, run: TrainingRun, paths: Mapping[int, Sequence[Solution]]) -> PartResult:
        scores = np.full((len(C_GRID), len(self._rows)), np.nan)
        for number, path in paths.items():
            rows = self._held_out[number]
            for position, solution in enumerate(path):
                if solution.status == "optimal":
                    scores[position, rows] = (run.y * (solution.gradient + 1.0) + solution.b)[rows]
        iterations = sum(solution.iterations for path in paths.values() for solution in path)
        return {
            "scores": scores[:, np.isin(self._fold, list(paths))],
            "iterations": np.array([iterations], dtype=np.int64),
        }
