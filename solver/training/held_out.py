"""Which labelled rows are held out to test on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.choices import FEWEST_OF_A_CLASS
from solver.content_hashes import hashes_of_rows
from solver.corrections import Corrected
from solver.repeated_rows import Cases
from solver.training.request import TrainingError, TrainingRequest
from solver.training.target import POSITIVE, UNLABELLED, Target
from solver.typing import BoolArray, IndexArray


def draw_test_rows(
    target: Target,
    corrected: Corrected,
    before: NDArray[Any],
    request: TrainingRequest,
    groups: IndexArray | None = None,
) -> tuple[IndexArray, IndexArray]:
    """Test rows and all other rows, both ascending: from each class the asked share, as far as enough stay.

    Of rows that are the same as they were read one is drawn at most; the others are neither tested nor trained on then.

    What corrections have relabelled is drawn by the labels `before`: the test rows are then those of a training without
    them, and what both measured can be compared. Rows that have a first label by chance are drawn apart, likewise.

    Rows that belong together by `groups`, the number of each row's group, are drawn together: of a class no group that
    has more of its rows than are asked for is.
    """
    if not 0 <= request.test_fraction < 1:
        raise TrainingError("test_fraction", "test_fraction must be at least 0 and below 1")
    if target.positives_only:  # left-out rows measure it
        return np.empty(0, dtype=np.intp), np.arange(len(target.codes))
    measurable = ~corrected.unmeasured
    as_before = target.codes.copy()
    moved = np.flatnonzero(corrected.looked_at & measurable)
    as_before[moved] = [target.code_of(label) for label in before[moved].tolist()]
    by_chance = corrected.changed & ~corrected.looked_at & measurable
    labelled = np.flatnonzero(target.codes != UNLABELLED)
    cases = _cases(labelled, as_before, measurable, by_chance, corrected, request, groups)
    sides = None
    if cases.groups is not None:
        sides = np.full(len(as_before), -1, dtype=np.intp)
        sides[labelled] = cases.groups
    drawable = measurable.copy()
    drawable[labelled[~cases.stands]] = False
    held_out = _drawn(as_before, drawable & ~by_chance, request, sides)
    held_out |= _drawn(as_before, by_chance & drawable, request, sides)
    aside = np.zeros(len(held_out), dtype=bool)
    aside[labelled] = cases.beside(held_out[labelled])
    if _stay_too_few(target, drawable & ~aside):
        held_out = _drawn(target.codes, drawable, request, sides)
        aside[labelled] = cases.beside(held_out[labelled])
    return np.flatnonzero(held_out), np.flatnonzero(~(held_out | aside))


def _cases(
    labelled: IndexArray,
    codes: NDArray[np.int8],
    measurable: BoolArray,
    by_chance: BoolArray,
    corrected: Corrected,
    request: TrainingRequest,
    groups: IndexArray | None,
) -> Cases:
    """Which labelled rows are the same as they were read; those that chance added stand for no others."""
    if request.test_fraction == 0:
        return Cases(np.arange(len(labelled)), np.arange(len(labelled)))
    exclude = [*request.exclude, *([] if request.target is None else [request.target])]
    hashes = hashes_of_rows(corrected.data.take(labelled), request.include, exclude)
    # the lot of a row does not depend on which other rows have labels, nor on rows that were added
    lot = np.random.default_rng(request.seed).random(len(codes))
    preference = np.where(measurable, 2.0 - by_chance, 0.0) + lot
    own = None if groups is None else groups[labelled]
    return Cases.of(hashes, codes[labelled], preference=preference[labelled], groups=own)


def _stay_too_few(target: Target, stay: BoolArray) -> bool:
    """Whether these rows are too few of a class to train on."""
    counts = [np.count_nonzero(target.codes[stay] == code) for code in range(len(target.classes))]
    return bool(min(counts) < FEWEST_OF_A_CLASS)


def _drawn(
    codes: NDArray[np.int8], measurable: BoolArray, request: TrainingRequest, sides: IndexArray | None
) -> BoolArray:
    """Which rows are drawn to test on; of those that are on one side all or none, where that is given."""
    rng = np.random.default_rng(request.seed)
    if sides is not None:
        return _drawn_together(codes, measurable & (codes >= 0), request, sides, rng)
    held_out = np.zeros(len(codes), dtype=bool)
    for code in range(int(codes.max(initial=POSITIVE)) + 1):
        rows = rng.permutation(np.flatnonzero((codes == code) & measurable))
        wanted = math.floor(request.test_fraction * len(rows) + 0.5)
        held_out[rows[: max(0, min(wanted, len(rows) - FEWEST_OF_A_CLASS))]] = True
    return held_out


def _drawn_together(
    codes: NDArray[np.int8],
    measurable: BoolArray,
    request: TrainingRequest,
    sides: IndexArray,
    rng: np.random.Generator,
) -> BoolArray:
    """Which rows are drawn where those of one side are drawn together: no more of a class than are asked for."""
    rows = np.flatnonzero(measurable)
    held_out = np.zeros(len(codes), dtype=bool)
    if not len(rows):
        return held_out
    _, side = np.unique(sides[rows], return_inverse=True)
    classes = int(codes[rows].max()) + 1
    there = np.bincount(side * classes + codes[rows], minlength=(side.max() + 1) * classes).reshape(-1, classes)
    total = there.sum(axis=0)
    wanted = np.floor(request.test_fraction * total + 0.5).astype(np.intp)
    room = np.clip(np.minimum(wanted, total - FEWEST_OF_A_CLASS), 0, None).tolist()
    taken = np.zeros(len(there), dtype=bool)
    for one in rng.permutation(len(there)).tolist():
        counts = there[one].tolist()
        if all(more <= left for more, left in zip(counts, room, strict=True)):
            taken[one] = True
            room = [left - more for more, left in zip(counts, room, strict=True)]
    held_out[rows] = taken[side]
    return held_out
