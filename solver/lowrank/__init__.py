"""The low-rank engine: training where the exact solver's kernel rows would take too much memory or time.

The kernel matrix is replaced by `G Gᵀ` with a narrow factor G, and the same quadratic program is solved on G: memory
for rows times rank, time linear in the rows.
"""

from solver.lowrank.engine import LowRankSolution, Polish, solve_lowrank, warm_up
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
