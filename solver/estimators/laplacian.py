"""The Laplacian SVM, by a kernel deformed along the data's neighbourhood graph."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import kneighbors_graph
from sklearn.utils._param_validation import Interval

from solver.estimators._base import SHARED_CONSTRAINTS
from solver.estimators._calibration import CalibrationPlan, LabeledSplit
from solver.estimators._deformation import Deformation, KernelDeformation, LinearDeformation, normalised_laplacian
from solver.estimators._guard import Mode
from solver.estimators._run import Expansion, FitCallback, TrainingRun
from solver.estimators._semi_supervised import SemiSupervisedClassifier
from solver.estimators._tuning import Tune
from solver.kernels.kernel import PrecomputedKernel
from solver.operating_point import Objective, ThresholdRule


class LaplacianSVM(SemiSupervisedClassifier):
    """SVM whose decision function varies little between neighbouring rows, labelled or not.

    The C-SVC on the labelled rows with the deformed kernel k(x, z) - k_x' (I + M G)⁻¹ M k_z, where G is the kernel
    matrix of all rows and M = manifold_weight times the normalised Laplacian of the graph of nearest neighbours.

    Parameters
    ----------
    n_neighbors : int, default 6
        Neighbours of a row in the graph (two rows are joined when either is among the other's).
    manifold_weight : float, default 0.1
        μ. With the linear kernel on features in [-1, 1], 0.1 is good, 1 too much and 0.01 without effect.
    tune : {"none", "C", "C-gamma"}, default "none"
        As in `SVM`.
    mode : {"method", "safe", "balanced", "bold"}, default "method"
        What is returned: the method's model; or, as long as the calibration rows do not show it to be better than the
        same labels without unlabelled rows, the SVM on those: better by 1.64 standard errors (`safe`), by one
        (`balanced`), by anything (`bold`). `report_["comparison"]` says which it was.
    objective, threshold_rule, labeled_split, positive, unlabeled, kernel, C, gamma, degree, coef0, tol, max_iter
        As in `SVM`. `threshold_rule="zero"` with `labeled_split="full"` is the method by itself.
    max_seconds, cache_size, device, class_weight, random_state, callback
        As in `SVM`.

    Attributes
    ----------
    classes_, threshold_, status_, status_reason_, report_, control_states_, n_features_in_, feature_names_in_, n_iter_
        As in `SVM`.

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

    _algorithm: ClassVar[str] = "lapsvm"
    _folds_are_parts: ClassVar[bool] = False  # they share the deformation of the kernel, which is most of the work
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SHARED_CONSTRAINTS,
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "manifold_weight": [Interval(Real, 0.0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        n_neighbors: int = 6,
        manifold_weight: float = 0.1,
        objective: str | Mapping[str, Any] | Objective = "f1",
        threshold_rule: ThresholdRule = "f1max",
        labeled_split: LabeledSplit = "xfit",
        tune: Tune = "none",
        mode: Mode = "method",
        positive: Any = None,
        unlabeled: Any = None,
        kernel: str = "rbf",
        C: float = 1.0,
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
        max_iter: int = -1,
        max_seconds: float | None = None,
        cache_size: float | None = None,
        device: str = "auto",
        class_weight: Any = None,
        random_state: Any = None,
        callback: FitCallback | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.manifold_weight = manifold_weight
        self.objective = objective
        self.threshold_rule = threshold_rule
        self.labeled_split = labeled_split
        self.tune = tune
        self.mode = mode
        self.positive = positive
        self.unlabeled = unlabeled
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.cache_size = cache_size
        self.device = device
        self.class_weight = class_weight
        self.random_state = random_state
        self.callback = callback

    def _train(self, run: TrainingRun, labelled: NDArray[np.intp], plan: CalibrationPlan) -> Expansion:
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

    def _deform(self, run: TrainingRun, graph_rows: NDArray[np.intp], labelled: NDArray[np.intp]) -> Deformation:
        neighbours = min(int(self.n_neighbors), len(graph_rows) - 1)
        graph = kneighbors_graph(run.X[graph_rows], neighbours, mode="connectivity")
        M = self.manifold_weight * normalised_laplacian(graph)
        kind = LinearDeformation if run.kernel_parameters.kind == "linear" else KernelDeformation
        return kind(run, graph_rows, labelled, M)
