"""Choice of C and gamma by cross-validation on labelled rows, for the objective."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from solver.estimators._calibration import FOLDS
from solver.estimators._run import TrainingRun
from solver.evaluation.splits import stratified_folds
from solver.operating_point import Objective, choose_threshold

Tune = Literal["none", "C", "C-gamma"]
TUNES: Final[tuple[Tune, ...]] = get_args(Tune)

C_GRID: Final = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
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
    """

    C: float
    gamma: float
    cells: list[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """JSON form, as it stands in reports."""
        return {"C": self.C, "gamma": self.gamma, "cells": self.cells}


def tune(
    run: TrainingRun, rows: NDArray[np.intp], objective: Objective, what: Tune, C: float, seed: np.random.Generator
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
        For the folds.
    """
    truth = run.y[rows]
    smaller = int(min(np.count_nonzero(truth > 0), np.count_nonzero(truth < 0)))
    fold = stratified_folds(truth, min(FOLDS, smaller), seed)
    middle = run.kernel_parameters.gamma
    with_gamma = what == "C-gamma" and run.kernel_parameters.kind != "linear"
    cells: list[dict[str, Any]] = []
    best = (-np.inf, C, middle)
    for factor in GAMMA_FACTORS if with_gamma else (1.0,):
        gamma = middle * factor
        inner = replace(
            run,
            X=run.X[rows],
            y=truth,
            cost=run.cost[rows],
            kernel_parameters=replace(run.kernel_parameters, gamma=gamma),
            memo={},
            has_model=True,  # none of the models here is returned
        )
        for value, scores in zip(C_GRID, _scores_along_costs(inner, fold), strict=True):
            utility = None
            if np.isfinite(scores).all():
                utility = objective.utility(choose_threshold(scores, truth, objective).counts)
                if utility > best[0]:
                    best = (utility, value, gamma)
            cells.append({"C": value, "gamma": gamma, "utility": utility})
        run.iterations = inner.iterations
        if inner.is_exhausted():
            run.ended = inner.ended if inner.ended == "stopped" else run.ended
            break
    return Tuning(best[1], best[2], cells)


def _scores_along_costs(run: TrainingRun, fold: NDArray[np.intp]) -> NDArray[np.float64]:
    """Out-of-fold scores for each C of the grid, shape (grid, rows); NaN where not converged."""
    scores = np.full((len(C_GRID), len(run.y)), np.nan)
    if run.is_exhausted():
        return scores
    held_out = [fold == number for number in range(int(fold.max()) + 1)]
    for rows, path in zip(held_out, run.solve_along_costs(held_out, [C * run.cost for C in C_GRID]), strict=True):
        for position, solution in enumerate(path):
            if solution.status == "optimal":
                scores[position, rows] = (run.y * (solution.gradient + 1.0) + solution.b)[rows]
    return scores
