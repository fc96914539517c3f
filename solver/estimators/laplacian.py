"""The Laplacian SVM, by a kernel deformed along the data's neighbourhood graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.neighbors import kneighbors_graph

from solver.algorithms import ALGORITHMS
from solver.estimators._calibration import CalibrationPlan
from solver.estimators._deformation import Deformation, KernelDeformation, LinearDeformation, normalised_laplacian
from solver.estimators._expansion import Expansion
from solver.estimators._run import TrainingRun
from solver.estimators._semi_supervised import SemiSupervisedClassifier
from solver.estimators.parameters import CostParameters
from solver.kernels.kernel import PrecomputedKernel
from solver.typing import IndexArray


@dataclass(kw_only=True, eq=False, repr=False)
class LaplacianSVM(CostParameters, SemiSupervisedClassifier):
    """SVM whose decision function varies little between neighbouring rows, labelled or not.

    The C-SVC on the labelled rows with the deformed kernel k(x, z) - k_x' (I + M G)⁻¹ M k_z, where G is the kernel
    matrix of all rows and M = manifold_weight times the normalised Laplacian of the graph of nearest neighbours.

    Parameters
    ----------
    n_neighbors : int, default 6
        Neighbours of a row in the graph (two rows are joined when either is among the other's).
    manifold_weight : float, default 0.1
        μ. With the linear kernel on features in [-1, 1], 0.1 is good, 1 too much and 0.01 without effect.

    See Also
    --------
    solver.estimators.parameters : Parameters that classifiers share, and the attributes of a fitted one.

    Notes
    -----
    Memory grows with rows times labelled rows, beyond 2000 rows never with the square of all rows. With the linear
    kernel the deformation takes a system of the size of the features. With the others each step of conjugate gradients
    computes anew what `cache_size` cannot hold of the kernel matrix of all rows.

    References
    ----------
    Belkin, Niyogi and Sindhwani, "Manifold regularization", JMLR 7, 2006; Sindhwani, Niyogi and Belkin, "Beyond the
    point cloud", ICML 2005.
    """

    declaration: ClassVar = ALGORITHMS["lapsvm"]
    _folds_are_parts: ClassVar[bool] = False  # they share the deformation of the kernel, which is most of the work

    n_neighbors: int = declaration.defaults["n_neighbors"]
    manifold_weight: float = declaration.defaults["manifold_weight"]

    def _train(self, run: TrainingRun, labelled: IndexArray, plan: CalibrationPlan) -> Expansion:
        # graph and deformation do not look at labels, so all folds share them
        graph_rows = np.union1d(plan.training_rows, run.unlabelled)
        if "deformation" not in run.memo:
            undeformed = self._train_svm(run, labelled)
            run.memo["deformation"] = self._deform(run, graph_rows, plan.training_rows)
            if run.is_exhausted():
                run.ended = run.ended or "solver_limit"
                return undeformed
        deformation: Deformation = run.memo["deformation"]
        places = np.searchsorted(plan.training_rows, labelled)
        y = run.y[labelled]
        cost = self._labelled_cost(run) * run.cost[labelled]
        solution = run.solve(places, y, cost, kernel=PrecomputedKernel(deformation.kernel))
        signed = np.zeros(len(plan.training_rows))
        signed[places] = y * solution.alpha
        dense = np.zeros(len(run.y))
        dense[graph_rows] = deformation.correction(signed)
        dense[plan.training_rows] += signed
        used = np.flatnonzero(dense)
        return Expansion(used, dense[used], float(solution.b), solution)

    def _deform(self, run: TrainingRun, graph_rows: IndexArray, labelled: IndexArray) -> Deformation:
        neighbours = min(int(self.n_neighbors), len(graph_rows) - 1)
        graph = kneighbors_graph(run.X[graph_rows], neighbours, mode="connectivity")
        M = self.manifold_weight * normalised_laplacian(graph)
        kind = LinearDeformation if run.kernel_parameters.kind == "linear" else KernelDeformation
        return kind(run, graph_rows, labelled, M)
