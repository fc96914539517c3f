"""Roc-SVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from solver.algorithms import ALGORITHMS
from solver.choices import ClusterScope
from solver.estimators._expansion import Expansion
from solver.estimators._positive_unlabelled import PositiveUnlabelledClassifier
from solver.estimators._run import TrainingRun
from solver.estimators._scores import approximate_scores
from solver.estimators.parameters import CostParameters, EngineParameter, PositiveShareParameter
from solver.positive_unlabelled.roc import grow_negatives, reliable_negatives
from solver.typing import BoolArray, FloatArray, IndexArray


@dataclass(kw_only=True, eq=False, repr=False)
class RocSVM(EngineParameter, CostParameters, PositiveShareParameter, PositiveUnlabelledClassifier):
    """SVM on the positive rows and on reliable negatives, which Rocchio's rule finds and one SVM after another adds to.

    Parameters
    ----------
    clusters : int, default 10
        Into which k-means parts what Rocchio's rule finds, for a second look at each part; 1: no second look.
    scope : {"reliable", "unlabelled"}, default "reliable"
        Rows that the second look may take: those that Rocchio's rule has found, or any.

    See Also
    --------
    solver.estimators.parameters : Parameters that classifiers share, and the attributes of a fitted one.

    Notes
    -----
    Rocchio's rule and k-means see the rows divided by their length, the SVM sees them as they are. Features as of
    tf-idf are needed: among rows of 0 and 1 hardly a reliable negative is found. Labelled negative rows have no part in
    the learning.

    With 30 positive rows or fewer the SVMs usually end by calling all unlabelled rows negative. The authors' check,
    that the last one finds 95 % of the positive rows, does not notice it: those rows trained it.

    References
    ----------
    Li and Liu, "Learning to classify texts using positive and unlabeled data", IJCAI 2003.
    """

    declaration: ClassVar = ALGORITHMS["roc-svm"]

    clusters: int = declaration.defaults["clusters"]
    scope: ClusterScope = declaration.defaults["scope"]

    def _separate(
        self, run: TrainingRun, positive: IndexArray, unlabelled: IndexArray, share: float | None
    ) -> Expansion:
        del share

        def train(negative: BoolArray, before: Expansion | None) -> tuple[Expansion, FloatArray, FloatArray]:
            rows = np.concatenate([positive, unlabelled[negative]])
            y = np.concatenate([np.ones(len(positive)), -np.ones(np.count_nonzero(negative))])
            model = run.train(rows, y, self._labelled_cost(run) * run.cost[rows], before)
            return model, approximate_scores(run, model, positive), approximate_scores(run, model, unlabelled)

        sure = reliable_negatives(run.X, positive, unlabelled, clusters=self.clusters, scope=self.scope, seed=run.seed)
        grown = grow_negatives(sure, train, lambda: bool(run.ended))
        claimed = int(np.count_nonzero(approximate_scores(run, grown.model, unlabelled) > 0))
        entry: dict[str, Any] = {
            "reliable_negatives": int(np.count_nonzero(sure)),
            "negatives": int(np.count_nonzero(grown.negative)),
            "trainings": grown.rounds,
            "kept": grown.kept,
            "claimed": claimed,
        }
        if claimed == 0 or (grown.negative.all() and grown.kept == "last"):
            entry["warning"] = "All unlabelled rows ended as negatives: too few positive rows for Roc-SVM."
        elif grown.negative.all():
            entry["warning"] = (
                "The SVMs of Roc-SVM ended with all unlabelled rows as negatives, so the first one was kept: too few "
                "positive rows, or C is too low."
            )
        run.trace.append(entry)
        return grown.model
