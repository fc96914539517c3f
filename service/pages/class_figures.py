"""What a model of several classes reached, as its page shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from service.models.figures import class_drift_picture
from service.models.schemas import ClassesDrift, ClassesFigures, ClassShare, MulticlassReport

MOST_IN_A_MATRIX = 20
"""Classes whose confusion matrix a page shows whole; of more it shows the worst pairs."""
NAMES = {
    "calibration": "This model, on left-out rows",
    "majority": "The largest class of every row",
    "plain_svm": "The supervised SVM",
}


@dataclass(frozen=True)
class ClassesDrifted:
    """What became of the rows of the last days."""

    figures: ClassesDrift
    classes: list[ClassShare]
    """All; of very many classes those whose shares differ the most from those of the left-out rows."""
    picture: Markup | None
    """Of one class, by day."""


def measured(report: MulticlassReport) -> Iterator[tuple[str, ClassesFigures]]:
    """Yield the figures that stand beside each other, with their names."""
    before = "" if report.refit is None else ", before it learned them"
    found = [(NAMES["calibration"], report.calibration)]
    found += [(NAMES.get(name, name), control.calibration) for name, control in report.controls.items()]
    found.append((f"This model, on test rows{before}", report.test))
    yield from ((name, figures) for name, figures in found if figures is not None)


def drifted(figures: ClassesDrift, shown: str) -> ClassesDrifted:
    """Return how often each class is said, and by day how often the one that is shown is."""
    classes = figures.classes
    if len(classes) > MOST_IN_A_MATRIX:
        classes = sorted(classes, key=_change, reverse=True)[:MOST_IN_A_MATRIX]
    (one,) = (each for each in figures.classes if each.label == shown)
    return ClassesDrifted(figures, classes, class_drift_picture(figures, one))


def _change(each: ClassShare) -> float:
    compared = each.training if each.calibration is None else each.calibration
    return 0.0 if each.share is None or compared is None else abs(each.share - compared)
