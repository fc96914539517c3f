"""The dual quadratic program of every algorithm of the product, solved exactly.

min ½ aᵀQa + pᵀa   subject to   yᵀa = delta,  lo <= a <= hi,   Q_ij = y_i y_j K(idx_i, idx_j)
"""

from solver.smo.many import kernel_of_its_own, solve_many
from solver.smo.problem import InfeasibleError, Solution, UnboundedError, repair
from solver.smo.problems_on_matrix import MatrixSolutions, solve_on_matrix
from solver.smo.program import Program, Start
from solver.smo.solve import solve
from solver.smo.stopping import Callback, StoppingLimits

__all__ = [
    "Callback",
    "InfeasibleError",
    "MatrixSolutions",
    "Program",
    "Solution",
    "Start",
    "StoppingLimits",
    "UnboundedError",
    "kernel_of_its_own",
    "repair",
    "solve",
    "solve_many",
    "solve_on_matrix",
]
