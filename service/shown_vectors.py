"""Vectors as people want to see them: of hundreds of numbers the first ones."""

from __future__ import annotations

from collections.abc import Sequence

MOST_SHOWN = 8
"""Numbers of a vector that are shown to people."""


def first_numbers(vector: Sequence[float]) -> str:
    """Return the first numbers of a vector as text, and how many it has."""
    first = ", ".join(f"{number:.4g}" for number in vector[:MOST_SHOWN])
    return f"[{first}]" if len(vector) <= MOST_SHOWN else f"[{first}, …] ({len(vector):,} numbers)"
