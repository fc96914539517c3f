"""Names of what a training may be made with, for those who offer a choice."""

from __future__ import annotations

from solver.algorithms import ALGORITHMS

ALGORITHM_NAMES: tuple[str, ...] = ("auto", *(name for name in ALGORITHMS if name != "auto"))
