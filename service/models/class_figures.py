"""Which classes a model of several takes for which, as its card, its report and its page show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from solver.classes_report import ClassesFigures, MulticlassReport

MOST_CONFUSED = 20


@dataclass(frozen=True)
class Confusion:
    """The confusion matrix, or of very many classes those that are taken for each other most."""

    names: Sequence[str]
    lines: Sequence[tuple[str, Sequence[int], int]]
    """Of each class its name, the rows by what was said of them, and the place of what is right."""
    worst: Sequence[tuple[int, str, str]]
    """Rows, their class, and the class that was said."""


def confusion(report: MulticlassReport, most: int) -> Confusion | None:
    """Return which classes are taken for which on the left-out rows; None where none were left out.

    Parameters
    ----------
    report : MulticlassReport
    most : int
        Of more classes than this, the matrix is not shown whole.
    """
    figures, classes = report.calibration, report.classes
    if figures is None:
        return None
    if len(classes) > most:
        return Confusion([], [], most_confused(figures, classes))
    lines = [(name, line, place) for place, (name, line) in enumerate(zip(classes, figures.confusion, strict=True))]
    return Confusion(classes, lines, [])


def most_confused(figures: ClassesFigures, classes: Sequence[str]) -> list[tuple[int, str, str]]:
    """Return the pairs of classes of which most rows are taken for each other: rows, true class, what was said."""
    wrong = [
        (rows, classes[true], classes[said])
        for true, line in enumerate(figures.confusion)
        for said, rows in enumerate(line[:-1])
        if said != true and rows
    ]
    return sorted(wrong, key=lambda each: (-each[0], each[1], each[2]))[:MOST_CONFUSED]
