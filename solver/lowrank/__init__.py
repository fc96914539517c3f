"""The low-rank engine: training where the exact solver's kernel rows would take too much memory or time.

The kernel matrix is replaced by ``G Gᵀ`` with a narrow factor G, and the same quadratic program is solved on G: memory
for rows times rank, time linear in the rows.
"""

import numpy as np

from solver.kernels.kernel import FeatureKernel
from solver.lowrank.engine import LowRankSolution, Polish, solve_lowrank
from solver.lowrank.factor import Factor, default_factor_bytes
from solver.lowrank.landmarks import Interrupted

__all__ = [
    "Factor",
    "Interrupted",
    "LowRankSolution",
    "Polish",
    "default_factor_bytes",
    "solve_lowrank",
    "warm_up",
]


def warm_up() -> None:
    """Compile or load everything that the engine needs, so that the next solve runs at full speed."""
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 2))
    y = np.where(X[:, 0] + random.normal(size=600) > 0, 1.0, -1.0)
    factor = Factor.build(FeatureKernel(X, gamma=0.5), 20)
    solve_lowrank(factor, np.arange(600), y, -1.0, 0.0, 1.0)
