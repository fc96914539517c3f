"""The report of a model of several classes to send: as `html_report` has it for two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from markupsafe import Markup

from service.models.class_card import CONTROLS
from service.models.class_figures import confusion
from service.models.class_points import report_in_use
from service.models.figures import class_curve_picture
from service.models.html_report import report_template, sentence, shared
from service.models.repository import Origin
from service.models.schemas import MulticlassModel, PrecisionRecallCurve
from solver.classes_report import ClassesFigures, ClassFigures, MulticlassReport

MOST_CLASSES, MOST_IN_A_MATRIX, MOST_CONFUSED, MOST_CURVES, MOST_FLOORS = 10, 8, 8, 2, 4
"""Classes with figures of their own and in the matrix, pairs instead of it, pictures, and floors: two pages do."""
MOST_OVER_A_COLUMN = 12
"""Characters; where a name is longer, numbers stand above the columns."""


def html_report_of_classes(
    model: MulticlassModel, origin: Origin, curve_of: Callable[[str], PrecisionRecallCurve | None]
) -> str:
    """Return the report of a model.

    Parameters
    ----------
    model : MulticlassModel
    origin : Origin
    curve_of : callable
        Gives precision against recall of a class; None where that was not kept.
    """
    report = report_in_use(model)
    each = [] if report.calibration is None else _worst_first(report.calibration)
    return report_template("class_report.html").render(
        **shared(model, report.classes),
        model=model,
        report=report,
        origin=origin,
        promise=None if report.promise is None else sentence(report.promise.sentence, report.classes),
        floors=report.floors[:MOST_FLOORS],
        more_floors=max(0, len(report.floors) - MOST_FLOORS),
        measured=list(_measured(report)),
        each=each[:MOST_CLASSES],
        more_classes=max(0, len(each) - MOST_CLASSES),
        matrix=confusion(report, MOST_IN_A_MATRIX),
        most_confused=MOST_CONFUSED,
        numbered=max(map(len, report.classes)) > MOST_OVER_A_COLUMN,
        curves=list(_curves(each, curve_of)),
    )


def _worst_first(figures: ClassesFigures) -> list[ClassFigures]:
    """Return the classes as they are, or of more than are shown those of the lowest F1 first."""
    if len(figures.classes) <= MOST_CLASSES:
        return figures.classes
    return sorted(figures.classes, key=lambda each: -1.0 if each.f1 is None else each.f1.value)


def _measured(report: MulticlassReport) -> Iterator[tuple[str, ClassesFigures]]:
    """Yield figures that stand beside each other, with what they are of."""
    tested = "Test rows, before they were learned" if report.refit else "Test rows"
    found = [("Left-out rows", report.calibration), (tested, report.test)]
    for name, control in report.controls.items():
        said = CONTROLS.get(name, name)
        found.append((f"{said[:1].upper()}{said[1:]}, left-out rows", control.calibration))
    yield from ((name, figures) for name, figures in found if figures is not None)


def _curves(
    each: Sequence[ClassFigures], curve_of: Callable[[str], PrecisionRecallCurve | None]
) -> Iterator[tuple[str, Markup]]:
    """Yield pictures of the classes that are told apart worst."""
    by_f1 = sorted(each, key=lambda figures: -1.0 if figures.f1 is None else figures.f1.value)
    for figures in by_f1[:MOST_CURVES]:
        curve = curve_of(figures.label)
        if curve is not None:
            yield figures.label, class_curve_picture(curve)
