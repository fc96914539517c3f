"""The cluster SVM: k-means labels the unlabelled rows, an SVM learns from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np
from scipy import sparse

from solver.algorithms import ALGORITHMS
from solver.choices import Empty, Scaling, Space
from solver.estimators._calibration import CalibrationPlan
from solver.estimators._clusterings import (
    Clustering,
    cluster,
    clusterable,
    principal_components,
    telling_components,
)
from solver.estimators._expansion import Expansion
from solver.estimators._run import TrainingRun
from solver.estimators._semi_supervised import SemiSupervisedClassifier
from solver.estimators.parameters import CostParameters, EngineParameter
from solver.method_limits import most_clusters, numbers_of_clusters
from solver.typing import FloatArray, IndexArray, Matrix

_REPLICATES: Final = 2
_SHARPNESS: Final = 10.0
_ROUNDING: Final = 1e-9


@dataclass(kw_only=True, eq=False, repr=False)
class ClusterSVM(EngineParameter, CostParameters, SemiSupervisedClassifier):
    """SVM on the labelled rows, and on the unlabelled ones with the labels of the clusters in which they lie.

    k-means on all rows; a cluster takes the majority of its labelled rows. How many clusters is told by leaving out one
    labelled row after the other. By default clusterings of several sizes vote, each with the weight
    exp(10 (its share of left-out rows told right - the best one's)), and an unlabelled row counts as much as they agree
    on it.

    Parameters
    ----------
    clusters : "ensemble", "loo" or int, default "ensemble"
        `ensemble`: clusterings into 2, 4, 6, 10, 16, l/2 and l clusters (l labelled rows), each from two random starts,
        vote. `loo`: the one of these sizes that tells left-out labelled rows best. A number: that many clusters. At
        most 200, and with many features fewer.
    space : {"input", "kernel-pca"}, default "input"
        Where k-means runs: on the rows, or on those of their ten leading kernel principal components (RBF, its width
        the median distance of labelled rows) that tell the labelled rows of both classes apart, for classes that lie
        around each other.
    scaling : {"auto", "standard", "none"}, default "auto"
        Whether k-means sees columns of equal variance. `auto`: dense ones.
    empty : {"nearest", "drop"}, default "nearest"
        A cluster without labelled rows takes the label of the nearest one that has some, or does not vote.
    C_soft : float, default 1.0
        Cost of a margin error of an unlabelled row on which all clusterings agree, as a multiple of C.

    Attributes
    ----------
    report_ : Report
        `report_.rounds` has the clusterings with their votes.

    See Also
    --------
    solver.estimators.parameters : Parameters that classifiers share, and the attributes of a fitted one.

    Notes
    -----
    Of more than 10,000 rows the centres are those of 10,000 drawn at random, of more than 1,000 the principal
    components those of 1,000. The result does not depend on the number of threads.

    References
    ----------
    Bae, Kim and Shin, "Semi-supervised support vector machine with k-means clustering", 2022.
    """

    declaration: ClassVar = ALGORITHMS["cluster"]
    _folds_are_parts: ClassVar[bool] = False  # they share the clusterings, which do not look at labels

    clusters: str | int = declaration.defaults["clusters"]
    space: Space = declaration.defaults["space"]
    scaling: Scaling = declaration.defaults["scaling"]
    empty: Empty = declaration.defaults["empty"]
    C_soft: float = declaration.defaults["C_soft"]

    def _train(self, run: TrainingRun, labelled: IndexArray, plan: CalibrationPlan) -> Expansion:
        if "clusterings" not in run.memo:
            run.memo["clusterings"] = self._clusterings(run, plan.training_rows)
        clusterings: _Clusterings = run.memo["clusterings"]
        margins = self._consensus(run, clusterings, labelled)
        if margins is None:
            run.ended = run.ended or "solver_limit"
            return self._train_svm(run, labelled)
        place = np.searchsorted(clusterings.rows, run.unlabelled)
        agreed = margins[place]
        taken = np.abs(agreed) > _ROUNDING
        run.trace.append({"unlabelled": int(np.count_nonzero(taken)), "positive": int(np.count_nonzero(agreed > 0))})
        soft = run.unlabelled[taken]
        cost = np.concatenate([np.ones(len(labelled)), self.C_soft * np.abs(agreed[taken])])
        rows = np.concatenate([labelled, soft])
        y = np.concatenate([run.y[labelled], np.sign(agreed[taken])])
        return run.train(rows, y, self._labelled_cost(run) * cost * run.cost[rows])

    def _clusterings(self, run: TrainingRun, labelled: IndexArray) -> _Clusterings:
        """What k-means runs on: once for all folds, as no label has a say."""
        rows = np.union1d(labelled, run.unlabelled)
        X = run.X[rows]
        standardise = self.scaling == "standard" or (self.scaling == "auto" and not sparse.issparse(X))
        Z = clusterable(X, standardise=standardise)
        projected = self.space == "kernel-pca"
        if projected:
            Z = principal_components(Z, np.searchsorted(rows, labelled), np.random.default_rng(run.seed))
        if isinstance(self.clusters, str):
            sizes = numbers_of_clusters(len(labelled), *Z.shape)
        else:
            sizes = [min(int(self.clusters), most_clusters(*Z.shape))]
        replicates = _REPLICATES if self.clusters == "ensemble" else 1
        return _Clusterings(rows, Z, projected, [(k, r) for k in sizes for r in range(replicates)])

    def _consensus(self, run: TrainingRun, clusterings: _Clusterings, labelled: IndexArray) -> FloatArray | None:
        """From -1, all clusterings say that a row is negative, to 1, positive; None if there was no time for one."""
        places, positive = np.searchsorted(clusterings.rows, labelled), run.y[labelled] > 0
        components = telling_components(np.asarray(clusterings.Z[places]), positive) if clusterings.projected else None
        found: list[tuple[int, Clustering, float]] = []
        for k, replicate in clusterings.sizes:
            clustering = clusterings.get(run, k, replicate, components)
            if clustering is None:
                break
            found.append((k, clustering, clustering.leave_one_out(places, positive)))
        if not found:
            return None
        best = max(score for _, _, score in found)
        if self.clusters != "ensemble":
            found = [next(each for each in found if each[2] == best)]  # the smallest of equals
        seed = np.random.default_rng(run.seed)
        sums, total = np.zeros(len(clusterings.rows)), 0.0
        for k, clustering, score in found:
            weight = float(np.exp(_SHARPNESS * (score - best)))
            labels, told = clustering.labels(places, positive, seed)
            vote = np.where(labels, weight, -weight)
            sums += vote if self.empty == "nearest" else np.where(told, vote, 0.0)
            total += weight
            run.trace.append(
                {"clusters": k, "left_out_right": score, "weight": weight}
                | ({} if components is None else {"components": list(components)})
            )
        return sums / total


@dataclass
class _Clusterings:
    """The rows that k-means runs on, and the clusterings that were asked for.

    Attributes
    ----------
    rows : int array
        Of the run, ascending.
    Z : dense or CSR matrix
        What stands for them.
    projected : bool
        Whether that is their principal components, some of which labels choose.
    sizes : list of (number of clusters, replicate)
    """

    rows: IndexArray
    Z: Matrix
    projected: bool
    sizes: list[tuple[int, int]]
    _known: dict[tuple[int, int, tuple[int, ...] | None], Clustering] = field(default_factory=dict)

    def get(self, run: TrainingRun, k: int, replicate: int, components: tuple[int, ...] | None) -> Clustering | None:
        """One clustering, on some of the components; None if time is over."""

        def is_over() -> bool:
            run.progress(run.fraction, clusters=k)
            return run.is_exhausted()

        key = (k, replicate, components)
        if key not in self._known:
            run.progress(run.fraction + 0.02 * (1 - run.fraction), clusters=k)
            if run.is_exhausted():
                return None
            Z = self.Z if components is None else np.asarray(self.Z)[:, components]
            clustering = cluster(Z, k, np.random.default_rng([run.seed, k, replicate]), is_over)
            if clustering is None:
                return None
            self._known[key] = clustering
        return self._known[key]
