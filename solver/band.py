"""Scores of which nothing is said, as decisions, requests and the database have them. Loads no NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Band:
    """Scores of which nothing is said: rows above `lower` and up to `upper` are left undecided.

    Attributes
    ----------
    lower : float
        Up to it the negative class is said; -inf: of no row.
    upper : float
        Above it the positive class is said; inf: of no row.
    """

    lower: float
    upper: float

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> Self | None:
        """Read what `to_json` gives; of null there is none.

        Raises
        ------
        ValueError
            If a bound is neither a finite number nor null, or they are the wrong way round.
        """
        if value is None:
            return None
        bounds = (value.get("lower"), value.get("upper"))
        if not all(each is None or _is_finite(each) for each in bounds):
            raise ValueError("'lower' and 'upper' must be finite numbers or null")
        lower, upper = bounds
        band = cls(-math.inf if lower is None else float(lower), math.inf if upper is None else float(upper))
        if band.lower > band.upper:
            raise ValueError("'lower' must not be above 'upper'")
        return band

    def to_json(self) -> dict[str, float | None]:
        """Both bounds; null for a class that is said of no row."""
        return {name: value if math.isfinite(value) else None for name, value in vars(self).items()}


def _is_finite(value: Any) -> bool:
    """Whether it is a number that a float holds."""
    return math.isfinite(value) if type(value) is float else type(value) is int and abs(value) < 1 << 53
