"""Why a training is refused, in words, for whoever can tell before it begins.

The training says them, and so does the API before a job is made; nothing here loads what trains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from solver.algorithms import ALGORITHMS
from solver.choices import FEWEST_OF_A_CLASS, MOST_CLASSES

BINARY_LABELS: Final[tuple[dict[str, int], ...]] = ({"0": 0, "1": 1}, {"-1": 0, "1": 1}, {"-1": 0, "+1": 1})
"""Pairs of labels that need no `positive`."""
KEEP_OF_SEVERAL: Final = "labels are kept of two classes only: name one in `positive`, or blank the others yourself"
NO_ABSTAINING: Final = "`abstain` needs labelled rows of both classes, and no negative ones measure; leave it out"
_PLAIN_POSITIVES: Final = ("1", "+1")
"""Labels that need no `positive` where no other one is there."""


def may_lack_negatives(algorithm: str) -> bool:
    """Whether an algorithm can learn from positive and unlabelled rows alone."""
    return algorithm in ALGORITHMS and not ALGORITHMS[algorithm].needs_negatives


def no_unlabelled(algorithm: str) -> str:
    """Say that there is nothing to learn from without labels."""
    return f"{algorithm} learns from unlabelled rows, and there are none; use svm"


def too_few_labelled(counts: Mapping[str, int], besides: str = "") -> str | None:
    """What to say where a class has too few labelled rows to be learned; `counts` are those of each class."""
    if min(counts.values()) >= FEWEST_OF_A_CLASS:
        return None
    few = counts if len(counts) <= 2 else {name: n for name, n in counts.items() if n < FEWEST_OF_A_CLASS}
    counted = _listed([f"{n} of {name!r}" for name, n in few.items()])
    if len(counts) == 1:
        return f"need at least {FEWEST_OF_A_CLASS} labelled positive rows{besides}, got {counted}"
    return f"need at least {FEWEST_OF_A_CLASS} labelled rows of each class{besides}, got {counted}"


def one_class(label: str, positive: str | None, algorithm: str, unlabelled: int | None) -> str | None:
    """Say why nothing can be learned from labelled rows that all have this label; None if something can.

    `unlabelled` is the number of the other rows, None where it is not known.
    """
    said = f"all labelled rows have the label {label!r}"
    if positive is None and label not in _PLAIN_POSITIVES:
        return f"{said}; if they are the positive class, name it in `positive`; else label rows of another class, too"
    if positive not in (None, label):
        return f"{said}, and positive is {positive!r}; label some rows that are, too"
    if unlabelled == 0:
        return f"{said}, and no row is without a label; add rows without a label, or rows of another class"
    if not may_lack_negatives(algorithm):
        able = ", ".join(name for name in ALGORITHMS if may_lack_negatives(name))
        return f"{said}, and {algorithm} needs two classes; {able} learn from positive and unlabelled rows alone"
    return None


def many_labels(positive: str, others: Sequence[str]) -> str:
    """What to say where more than one label is there beside the positive one."""
    return (
        f"{len(others) + 1} different labels: {positive!r} is told from all others together ({quoted(others)}); if "
        "one of them means 'not known', list it in `unlabeled`"
    )


def many_classes(count: int) -> str | None:
    """What to say of more classes than can be told apart."""
    if count <= MOST_CLASSES:
        return None
    return (
        f"{count} different labels: at most {MOST_CLASSES} classes are told apart; name one in `positive`, merge some, "
        "or list those that mean 'not known' in `unlabeled`"
    )


def left_out_needed(split: str) -> str:
    """Say that several classes are decided by scores of rows that were left out."""
    return f"labeled_split {split!r} is for two classes: several are told apart by scores of left-out rows, 'xfit'"


def quoted(labels: Sequence[str]) -> str:
    """Labels as they stand in a sentence; of many the first ones."""
    return _listed(list(map(repr, labels)))


def _listed(texts: Sequence[str], most: int = 10) -> str:
    shown = ", ".join(texts[:most])
    return shown if len(texts) <= most else f"{shown} and {len(texts) - most} more"
