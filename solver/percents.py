"""Shares in percent, for sentences and figures: one way to round them, wherever they are read.

A share that was measured is rounded to the nearest; what it is at least is rounded down, and what it is at most up. Of
what is near 0 or 1 there are so many digits that it reads as neither, unless it is just that.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Final

_EXACT: Final = 12
"""Digits of a share that are worth something: what arithmetic leaves behind these is none of it."""
_UNDER_AND_OVER: Final = (0.01, 0.99)


def measured(share: float, unlike: float | None = None) -> str:
    """Return a measured share, such as ``94.7%``.

    Parameters
    ----------
    share : float
    unlike : float, optional
        A share that was asked for and not reached: there are so many digits that the two do not read alike.
    """
    digits = _digits(share)
    told = _percent(share, digits, ROUND_HALF_EVEN)
    while unlike is not None and told == asked(unlike) and digits < _EXACT:
        digits += 1
        told = _percent(share, digits, ROUND_HALF_EVEN)
    return told


def at_least(bound: float) -> str:
    """Return a share that is reached or exceeded, rounded down."""
    return _percent(bound, _digits(bound), ROUND_FLOOR)


def at_most(bound: float) -> str:
    """Return a share that is not exceeded, rounded up."""
    return _percent(bound, _digits(bound), ROUND_CEILING)


def asked(share: float) -> str:
    """Return a share that somebody asked for, to the last digit."""
    told = f"{100 * share:.{_EXACT}g}"
    return f"{Decimal(told):f}%" if share >= 10.0**-_EXACT else f"{told}%"


def with_range(value: float, low: float, high: float) -> str:
    """Return a measured share with its interval."""
    return f"{measured(value)} ({measured(low)} to {measured(high)})"


def done(share: float) -> str:
    """Return whole percents of what is done: all of it only when it is."""
    return f"{math.floor(100 * share + 1e-9)}%"


def odds(chance: float) -> str:
    """Return whole percents, rounded down, so that what is not called likely is not said to be as likely as that."""
    least, most = _UNDER_AND_OVER
    if chance < least:
        return "under 1%"
    return "over 99%" if chance > most else done(chance)


def decimal(share: float, digits: int = 3) -> str:
    """Return a measure as a number with so many digits, for tables; a share with more, as long as it would read 0 or 1.

    What is no share is rounded to the nearest.
    """
    exact = round(share, _EXACT)
    if 0.0 < exact < 1.0:
        while digits < _EXACT and float(f"{exact:.{digits}f}") in (0.0, 1.0):
            digits += 1
    return f"{share:.{digits}f}"


def decimals(value: float, low: float, high: float, interval: str = "({} to {})") -> str:
    """Return a measure and its interval, each as `decimal` has it."""
    return f"{decimal(value)} {interval.format(decimal(low), decimal(high))}"


def _digits(share: float) -> int:
    """Digits behind the point of a percentage: one, or two that are not 0 of what is less than 1% from an end."""
    left = min(share, 1.0 - share)
    if not 10.0**-_EXACT < left < 0.01:
        return 1
    return math.ceil(-math.log10(100 * left) - 1e-9) + 1


def _percent(share: float, digits: int, rounding: str) -> str:
    exact = 100 * Decimal(f"{share:.{_EXACT}f}")
    rounded = exact.quantize(Decimal(1).scaleb(-digits), rounding=rounding).normalize()
    return f"{rounded + 0:f}%"
