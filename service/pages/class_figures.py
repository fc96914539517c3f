"""What a model of several classes reached, as its page shows it."""

from __future__ import annotations

from collections.abc import Iterator

from service.models.schemas import ClassesFigures, MulticlassReport

MOST_IN_A_MATRIX = 20
"""Classes whose confusion matrix a page shows whole; of more it shows the worst pairs."""
NAMES = {
    "calibration": "This model, on left-out rows",
    "majority": "The largest class of every row",
    "plain_svm": "The supervised SVM",
}


def measured(report: MulticlassReport) -> Iterator[tuple[str, ClassesFigures]]:
    """Yield the figures that stand beside each other, with their names."""
    before = "" if report.refit is None else ", before it learned them"
    found = [(NAMES["calibration"], report.calibration)]
    found += [(NAMES.get(name, name), control.calibration) for name, control in report.controls.items()]
    found.append((f"This model, on test rows{before}", report.test))
    yield from ((name, figures) for name, figures in found if figures is not None)
