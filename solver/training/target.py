"""Labels as the user wrote them → the class of each row."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from solver.choices import FEWEST_OF_A_CLASS
from solver.corrections import Corrections
from solver.labels import all_but, counted, folded, folding, keep_labels, lone_negative, spelling_warning
from solver.refusals import (
    BINARY_LABELS,
    KEEP_OF_SEVERAL,
    many_classes,
    many_labels,
    may_lack_negatives,
    one_class,
    quoted,
    too_few_labelled,
)
from solver.training.request import TrainingError, TrainingRequest
from solver.typing import BoolArray

_MOST_CHARACTERS: Final = 256
"""Of a label."""
POSITIVE: Final = 1
NEGATIVE: Final = 0
UNLABELLED: Final = -1
"""Codes of rows; of several classes, 0 and up."""


@dataclass(frozen=True)
class Target:
    """Encoded labels: the code of each row's class, -1 for unlabelled, the names of the classes, and what was odd.

    Of two classes the negative one comes first. Where `positives_only`, too few negative rows measure for a threshold
    to be chosen on them.
    """

    codes: NDArray[np.int8]
    classes: tuple[str, ...]
    warnings: list[str]
    positives_only: bool = False

    @property
    def is_of_several(self) -> bool:
        """Whether there are more classes than two."""
        return len(self.classes) > 2

    @property
    def pair(self) -> tuple[str, str]:
        """The negative and the positive class of two."""
        negative, positive = self.classes
        return negative, positive

    def count(self, code: int) -> int:
        """How many rows have this code."""
        return int(np.count_nonzero(self.codes == code))

    def code_of(self, label: str) -> int:
        """The class of a label; of two classes every other label than the positive one is negative."""
        if self.is_of_several:  # a class of which corrections have left no row stands nowhere
            return self.classes.index(label) if label in self.classes else 0
        return POSITIVE if label == self.pair[1] else NEGATIVE


def read_labels(labels: NDArray[Any], unmeasured: BoolArray, request: TrainingRequest) -> Target:
    """The class of each row; raises `TrainingError` where nothing can be learned from these labels."""
    values = labels.tolist()
    unlabelled = {None, *request.unlabeled}
    found = sorted(label for label in set(values) - unlabelled if not _is_blank(label))
    for label in found:
        if len(label) > _MOST_CHARACTERS:
            raise TrainingError(
                "label_text", f"a label has {len(label)} characters; at most {_MOST_CHARACTERS} are allowed"
            )
        if any(unicodedata.category(character) in ("Cc", "Cs") for character in label):
            raise TrainingError("label_text", f"a label holds a control character: {label!a}")
    classes: tuple[str, ...]
    if len(found) == 1:
        codes_by_label, classes, warnings = _one_class(found[0], values, request)
    else:
        codes_by_label, classes, warnings = _classes(found, request.positive)
    if request.negative:  # then the request names them all
        warnings = []
    if (said := spelling_warning(found)) is not None:
        warnings = [*warnings, said]
    codes = np.fromiter((codes_by_label.get(value, UNLABELLED) for value in values), np.int8, len(values))
    target = Target(codes, classes, warnings)
    few = {name: int(np.count_nonzero(codes[~unmeasured] == code)) for code, name in enumerate(classes)}
    alone = len(classes) == 2 and may_lack_negatives(request.algorithm) and target.count(UNLABELLED) > 0
    if alone and few[classes[0]] < FEWEST_OF_A_CLASS:
        target, few = replace(target, positives_only=True), {classes[1]: few[classes[1]]}
    too_few = too_few_labelled(few, " besides feedback" if unmeasured.any() else "")
    if too_few is not None:
        raise TrainingError("too_few_labelled", too_few)
    return target


def fold_labels(
    labels: NDArray[Any], request: TrainingRequest, corrections: Corrections | None
) -> tuple[NDArray[Any], TrainingRequest, Corrections | None]:
    """The same with one spelling for labels that differ in capitals or blanks only."""
    wanted = [*request.negative, *request.unlabeled, *([] if request.positive is None else [request.positive])]
    chosen = folding(counted(labels), wanted)

    def spelt(label: str | None) -> str | None:
        return None if label is None else chosen.get(folded(label), label)

    known = {label: spelt(label) for label in set(labels.tolist())}
    same = np.array([*(known[label] for label in labels.tolist()), None], dtype=object)[:-1]
    request = replace(
        request,
        positive=spelt(request.positive),
        unlabeled=[chosen[folded(label)] for label in request.unlabeled],
        negative=[chosen[folded(label)] for label in request.negative],
    )
    if corrections is not None:
        corrections = replace(corrections, labels=[spelt(label) or label for label in corrections.labels])
    return same, request, corrections


def keep_some_labels(labels: NDArray[Any], request: TrainingRequest, keep: int) -> NDArray[Any]:
    """The labels of so many rows; the others are blanked."""
    values = labels.tolist()
    unlabelled = {None, *request.unlabeled}
    codes, classes, _ = _classes(
        sorted(label for label in set(values) - unlabelled if not _is_blank(label)), request.positive
    )
    if len(classes) > 2:
        raise TrainingError("keep", KEEP_OF_SEVERAL)
    coded = np.fromiter((codes.get(value, UNLABELLED) for value in values), np.int8, len(values))
    try:
        kept = keep_labels(coded == POSITIVE, coded != UNLABELLED, keep, request.keep_seed)
    except ValueError as error:
        raise TrainingError("keep", str(error)) from error
    known = labels.copy()
    known[~kept] = None
    return known


def _is_blank(label: Any) -> bool:
    if not isinstance(label, str):
        raise TypeError(f"labels must be str or None, got {type(label).__name__}")
    return not label.strip()


def _classes(found: list[str], positive: str | None) -> tuple[dict[str, int], tuple[str, ...], list[str]]:
    """Code of each label, the names of the classes, and warnings."""
    if not found:
        raise TrainingError("no_labels", "no row has a label")
    if positive is not None and positive not in found:
        raise TrainingError("unknown_positive", f"positive is {positive!r}, but the labels are {quoted(found)}")
    if positive is None:
        for codes in BINARY_LABELS:
            if set(found) == codes.keys():
                negative, positive = codes
                return codes, (negative, positive), []
        if len(found) > 2:
            too_many = many_classes(len(found))
            if too_many is not None:
                raise TrainingError("many_classes", too_many)
            return {label: code for code, label in enumerate(found)}, tuple(found), []
        raise TrainingError(
            "positive_needed",
            f"the labels are {quoted(found)}: say which one is positive; only 0/1 and -1/+1 need no telling",
        )
    rest = [label for label in found if label != positive]
    codes = {label: POSITIVE if label == positive else NEGATIVE for label in found}
    if len(rest) == 1:
        return codes, (rest[0], positive), []
    return codes, (all_but(positive), positive), [many_labels(positive, rest)]


def _one_class(
    label: str, values: Sequence[str | None], request: TrainingRequest
) -> tuple[dict[str, int], tuple[str, str], list[str]]:
    """Code of the only label, the class names, and no warnings; raises `TrainingError` if nothing can be learned."""
    unlabelled = sum(value != label for value in values)
    wrong = one_class(label, request.positive, request.algorithm, unlabelled)
    if wrong is not None:
        raise TrainingError("one_class", wrong)
    return {label: POSITIVE}, (lone_negative(label, request.negative), label), []
