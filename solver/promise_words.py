"""Words of a promise that whoever shows one needs, too: what can be counted on, and all but what would prove it.

Without numerics, because the command line starts with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from solver.choices import rate_name
from solver.report import Promise

_NAMES: Final = {
    "f1": "an F1 of",
    "f_beta": "an F-beta of",
    "precision": "a precision of",
    "recall": "a recall of",
    "false_positive_rate": "a false positive rate of at most",
}


def counted_on(bounds: Mapping[str, float], kind: str) -> str:
    """Return what can be counted on, as a sentence without its full stop."""
    names = _NAMES | {"false_positive_rate": f"a {rate_name(kind)} of at most"}
    return "What you can count on is " + " and ".join(
        f"{names[name]} {_rounded(name, bound)}" for name, bound in bounds.items()
    )


def without_advice(promise: Promise, kind: str) -> str:
    """Return what the labelled rows say of a target without what would prove it: for one that was proven otherwise."""
    if not promise.bounds or not promise.bounds.keys() <= _NAMES.keys():
        return promise.sentence
    # within a sentence it begins with a small letter; models of before called every rate a false positive rate
    for called in (kind, "false_positive_rate"):
        said, found, advice = promise.sentence.partition(f"{counted_on(promise.bounds, called)}."[1:])
        if found:
            return said + found + _left_undecided(promise, advice)
    return promise.sentence


def _left_undecided(promise: Promise, advice: str) -> str:
    """Return what is said of both labels behind the advice."""
    if promise.abstain is None:
        return ""
    label = repr(promise.abstain.positive.label)
    for begin in (f" Of the rows called {label}", f" No row is called {label}"):
        _, found, more = advice.partition(begin)
        if found:
            return found + more
    return ""


def _rounded(name: str, bound: float) -> str:
    """A bound with the digits that it is worth, rounded to the safe side."""
    if name != "false_positive_rate":
        return f"{bound:.2f}"
    digits = max(2, 1 - math.floor(math.log10(max(bound, 1e-9))))
    return f"{math.ceil(bound * 10**digits - 1e-9) / 10**digits:.{digits}f}"
