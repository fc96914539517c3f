"""What a training can promise at best, by the number of its labels alone: so that it is said before it begins."""

from __future__ import annotations

import math
from typing import Final

from solver import percents
from solver.chances import LIKELY, WORTH_FOR_CHANCES, Share
from solver.choices import FEWEST_OF_A_CLASS
from solver.operating_point import Objective, target_words

_MOST_ROWS: Final = 100_000
"""More than these are not asked for."""


def too_few_for(
    objective: Objective, positive: str, positives: int, negatives: int, test_fraction: float
) -> str | None:
    """Say that a target will not be promised, whatever the model makes of the labels; None where it may be.

    The promise (`solver.promise`) is computed as it would be if not one of these rows were an error.

    Parameters
    ----------
    objective : Objective
    positive : str
        Name of the positive class, for the words.
    positives, negatives : int
        Labelled rows.
    test_fraction : float
        Share of them that is held out, of each class; 0 where the model learns them in the end.
    """
    for name, target in objective.targets.items():
        of_negatives = name == "specificity"
        rows = negatives if of_negatives else positives
        whose = f"labelled rows that are not {positive!r}" if of_negatives else f"labelled {positive!r} rows"
        wanted = target_words(name, target, objective.kind)
        fewer = "a higher rate" if of_negatives else "a lower target"
        if target == 1.0:
            continue  # no number of labels would do, which is said elsewhere
        if objective.confidence is not None:
            testing, fewest = _fewest_to_certify(objective, objective.confidence, target, test_fraction)
            if rows - _held_out(rows, test_fraction) < testing:
                sure = (
                    f"{wanted} with confidence {percents.asked(objective.confidence)}, even without an error among them"
                )
                return f"{rows} {whose} are too few to certify {sure}; it takes {_some(fewest)}, or {fewer}"
        elif (chance := _best_chance(rows, target, test_fraction)) < LIKELY:
            best = f"even without an error among them it would hold with a chance of {percents.odds(chance)} at most"
            fewest = _fewest_to_be_likely(target, test_fraction)
            return f"{rows} {whose} are too few to promise {wanted}: {best}; it takes {_some(fewest)}, or {fewer}"
    return None


def _some(rows: int) -> str:
    return f"at least {rows:,}" if rows <= _MOST_ROWS else f"more than {_MOST_ROWS:,}"


def _held_out(rows: int, test_fraction: float) -> int:
    return max(0, min(math.floor(test_fraction * rows + 0.5), rows - FEWEST_OF_A_CLASS))


def _best_chance(rows: int, target: float, test_fraction: float) -> float:
    """The chance that the target holds, of rows without an error: those held out count in full."""
    tested = _held_out(rows, test_fraction)
    return float(Share(WORTH_FOR_CHANCES * (rows - tested) + tested, 0.0).above(target))


def _fewest_to_be_likely(target: float, test_fraction: float) -> int:
    low, high = 0, 1
    while high <= _MOST_ROWS and _best_chance(high, target, test_fraction) < LIKELY:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _best_chance(middle, target, test_fraction) >= LIKELY else (middle, high)
    return high


def _fewest_to_certify(objective: Objective, confidence: float, target: float, test_fraction: float) -> tuple[int, int]:
    """Rows that take part in training, and all of them, for the exact bound to reach the target without an error."""
    testing = math.ceil(math.log(1.0 - confidence) / math.log(target) - 1e-9)
    if objective.certificate == "strict":  # half of them test it
        testing *= 2
    # Of fewer than these, too few take part however what is held out is rounded.
    fewest = max(testing, math.ceil((testing - 0.5) / (1.0 - test_fraction) - 1e-9))
    while fewest - _held_out(fewest, test_fraction) < testing:
        fewest += 1
    return testing, fewest
