"""The Laplacian SVM, by a kernel deformed along the data's neighbourhood graph."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.neighbors import kneighbors_graph
from sklearn.utils._param_validation import Interval

from solver.arrays import available_memory
from solver.estimators._base import SHARED_CONSTRAINTS
from solver.estimators._calibration import CalibrationPlan, LabeledSplit
from solver.estimators._guard import Mode
from solver.estimators._run import Expansion, FitCallback, TrainingRun
from solver.estimators._semi_supervised import SemiSupervisedClassifier
from solver.estimators._tuning import Tune
from solver.kernels import PrecomputedKernel
from solver.operating_point import Objective, ThresholdRule

# up to this many rows the linear system is solved directly
_DIRECT_ROWS: Final = 2000
_CG_TOLERANCE: Final = 1e-6
_CG_STEPS: Final = 1000
_BLOCK_ROWS: Final = 512


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
    A kernel matrix of all rows is kept in memory. Beyond 2000 rows the linear system is solved by conjugate gradients.

    References
    ----------
    Belkin, Niyogi and Sindhwani, "Manifold regularization", JMLR 7, 2006; Sindhwani, Niyogi and Belkin, "Beyond the
    point cloud", ICML 2005.
    """

    _algorithm: ClassVar[str] = "lapsvm"
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
        if "deformed" not in run.memo:
            run.memo["deformed"] = self._deform(run, graph_rows, plan.training_rows)
        deformed, correction = run.memo["deformed"]
        places = np.searchsorted(plan.training_rows, labelled)
        y = run.y[labelled]
        solution = run.solve(places, y, self._labelled_cost * run.cost[labelled], kernel=PrecomputedKernel(deformed))
        signed = y * solution.alpha
        dense = np.zeros(len(run.y))
        dense[graph_rows] = -correction[:, places] @ signed
        dense[labelled] += signed
        used = np.flatnonzero(dense)
        return Expansion(used, dense[used], float(solution.b), solution)

    def _deform(
        self, run: TrainingRun, graph_rows: NDArray[np.intp], labelled: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The deformed kernel among the labelled rows, and Z = (I + M G)⁻¹ M K(graph, labelled)."""
        n = len(graph_rows)
        needed = 8 * n * n
        if needed > available_memory() // 2:
            raise ValueError(
                f"LaplacianSVM keeps a kernel matrix of all {n} rows, {needed >> 20} MB, which does not fit into "
                "memory; use fewer unlabelled rows"
            )
        neighbours = kneighbors_graph(run.X[graph_rows], min(int(self.n_neighbors), n - 1), mode="connectivity")
        M = self.manifold_weight * normalised_laplacian(neighbours)
        G = np.empty((n, n))
        for start in range(0, n, _BLOCK_ROWS):
            G[start : start + _BLOCK_ROWS] = run.kernel.matrix(graph_rows[start : start + _BLOCK_ROWS], graph_rows)
        K = np.ascontiguousarray(G[:, np.searchsorted(graph_rows, labelled)])
        direct = n <= _DIRECT_ROWS
        correction = np.linalg.solve(np.eye(n) + M @ G, M @ K) if direct else solve_deformation(M, G, M @ K)
        deformed = K[np.searchsorted(graph_rows, labelled)] - K.T @ correction
        return (deformed + deformed.T) / 2, correction


def normalised_laplacian(neighbours: sparse.csr_matrix) -> sparse.csr_matrix:
    """I - D^(-1/2) A D^(-1/2) of the graph made symmetric, A = max(N, Nᵀ)."""
    A = sparse.csr_matrix(neighbours.maximum(neighbours.T))
    scale = sparse.diags(1 / np.sqrt(np.maximum(np.asarray(A.sum(axis=1)).ravel(), 1e-12)))
    return sparse.csr_matrix(sparse.eye(A.shape[0]) - scale @ A @ scale)


def solve_deformation(M: sparse.csr_matrix, G: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve (I + M G) Z = right for all columns at once.

    I + M G is self-adjoint and positive in the inner product ⟨x, z⟩ = xᵀ G z, so conjugate gradients in that product
    apply; each step takes one product with G for all columns.
    """
    Z = np.zeros_like(right)
    residual = right.copy()
    G_residual = G @ residual
    direction, G_direction = residual.copy(), G_residual.copy()
    squared = np.einsum("ij,ij->j", residual, G_residual)
    enough = (_CG_TOLERANCE**2) * squared
    for _ in range(_CG_STEPS):
        if np.all(squared <= enough):
            break
        image = direction + M @ G_direction
        curvature = np.einsum("ij,ij->j", G_direction, image)
        step = np.divide(squared, curvature, out=np.zeros_like(squared), where=(curvature > 0) & (squared > enough))
        Z += step * direction
        residual -= step * image
        G_residual = G @ residual
        new = np.einsum("ij,ij->j", residual, G_residual)
        ratio = np.divide(new, squared, out=np.zeros_like(new), where=squared > 0)
        direction = residual + ratio * direction
        G_direction = G_residual + ratio * G_direction
        squared = new
    return Z
