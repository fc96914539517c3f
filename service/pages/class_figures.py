"""What a model of several classes reached, as its page shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from service.models.class_card import most_confused
from service.models.schemas import ClassesFigures, MulticlassReport

MOST_IN_A_MATRIX = 20
"""Classes whose confusion matrix a page shows whole; of more it shows the worst pairs."""
NAMES = {
    "calibration": "This model, on left-out rows",
    "majority": "The largest class of every row",
    "plain_svm": "The supervised SVM",
}


@dataclass(frozen=True)
class Confusion:
    """The confusion matrix, or of very many classes those that are taken for each other most."""

    names: list[str]
    lines: list[tuple[str, list[int], int]]
    """Of each class its name, the rows by what was said of them, and the place of what is right."""
    worst: list[tuple[int, str, str]]


def measured(report: MulticlassReport) -> Iterator[tuple[str, ClassesFigures]]:
    """Yield the figures that stand beside each other, with their names."""
    before = "" if report.refit is None else ", before it learned them"
    found = [(NAMES["calibration"], report.calibration)]
    found += [(NAMES.get(name, name), control.calibration) for name, control in report.controls.items()]
    found.append((f"This model, on test rows{before}", report.test))
    yield from ((name, figures) for name, figures in found if figures is not None)


def confusion(report: MulticlassReport) -> Confusion | None:
    """Return which classes are taken for which on the left-out rows; None where none were left out."""
    figures, classes = report.calibration, report.classes
    if figures is None:
        return None
    if len(classes) > MOST_IN_A_MATRIX:
        return Confusion([], [], most_confused(figures, classes))
    lines = [(name, line, place) for place, (name, line) in enumerate(zip(classes, figures.confusion, strict=True))]
    return Confusion(classes, lines, [])
