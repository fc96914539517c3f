"""Biased SVM: the positive rows against the unlabelled ones, of which an error costs less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from solver.algorithms import ALGORITHMS
from solver.estimators._expansion import Expansion
from solver.estimators._positive_unlabelled import PositiveUnlabelledClassifier
from solver.estimators._run import TrainingRun
from solver.estimators.parameters import CostParameters, EngineParameter, PositiveShareParameter
from solver.typing import IndexArray


@dataclass(kw_only=True, eq=False, repr=False)
class BiasedSVM(EngineParameter, CostParameters, PositiveShareParameter, PositiveUnlabelledClassifier):
    """SVM that takes unlabelled rows for negative, where an error costs so much less that both kinds weigh the same.

    Positives among the unlabelled rows are then errors that cost little, and the SVM gives them up.

    Parameters
    ----------
    unlabeled_factor : float, default 1.0
        What the unlabelled rows weigh together, as a multiple of what the positive rows weigh together. A labelled
        negative row costs what a positive one does.

    See Also
    --------
    solver.estimators.parameters : Parameters that classifiers share, and the attributes of a fitted one.

    References
    ----------
    Liu, Dai, Li, Lee and Yu, "Building text classifiers using positive and unlabeled examples", ICDM 2003.
    """

    declaration: ClassVar = ALGORITHMS["biased-svm"]

    unlabeled_factor: float = declaration.defaults["unlabeled_factor"]

    def _separate(
        self, run: TrainingRun, positive: IndexArray, unlabelled: IndexArray, share: float | None
    ) -> Expansion:
        del share
        negative = np.flatnonzero(run.y < 0) if self._learns_negatives else np.empty(0, dtype=np.intp)
        weights = [
            np.ones(len(positive)),
            np.full(len(unlabelled), self.unlabeled_factor * len(positive) / max(len(unlabelled), 1)),
            np.ones(len(negative)),
        ]
        rows = np.concatenate([positive, unlabelled, negative])
        y = np.concatenate([weights[0], -np.ones(len(unlabelled) + len(negative))])
        return run.train(rows, y, self._labelled_cost(run) * run.cost[rows] * np.concatenate(weights))
