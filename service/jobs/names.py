"""What a training may be made with, for those who offer a choice: names of algorithms, and what each may be told."""

from __future__ import annotations

from collections.abc import Sequence

from solver.algorithms import ALGORITHMS, AUTO, Parameter
from solver.labels import is_missing_word

ALGORITHM_NAMES: tuple[str, ...] = (AUTO, *(name for name in ALGORITHMS if name != AUTO))


def may_mean_unknown(label: str) -> bool:
    """Tell whether a label is a word that often means 'not known'."""
    return is_missing_word(label.strip())


def parameters_of(algorithm: str) -> Sequence[Parameter]:
    """Return the parameters of an algorithm; of a name that nobody knows none."""
    spec = ALGORITHMS.get(algorithm)
    return () if spec is None else spec.parameters
