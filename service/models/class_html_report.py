"""The report of a model of several classes to send: as `html_report` has it for two."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jinja2 import Template
from markupsafe import Markup

from service import shown_text
from service.html_templates import html_templates
from service.models.class_card import CONTROLS, most_confused
from service.models.class_points import report_in_use
from service.models.figures import class_curve_picture
from service.models.html_report import (
    MOST_COLUMNS,
    MOST_OF_A_NAME,
    MOST_OF_A_SENTENCE,
    MOST_WARNINGS,
    POLICY,
    TEMPLATES,
    estimate,
    label,
    note,
)
from service.models.repository import Origin
from service.models.schemas import MulticlassModel, PrecisionRecallCurve
from service.models.words import objective_words, promise_level, shares_in_percent
from solver.classes_report import ClassesFigures, ClassFigures, MulticlassReport

MOST_CLASSES, MOST_IN_A_MATRIX, MOST_CONFUSED, MOST_CURVES, MOST_FLOORS = 10, 8, 8, 2, 4
"""Classes with figures of their own and in the matrix, pairs instead of it, pictures, and floors: two pages do."""
MOST_OVER_A_COLUMN = 12
"""Characters; longer names stand beside numbers."""


@dataclass(frozen=True)
class _Matrix:
    """The confusion matrix, or of many classes those that are taken for each other most."""

    names: Sequence[str]
    lines: Sequence[tuple[str, Sequence[int], int]]
    worst: Sequence[tuple[int, str, str]]
    numbered: bool = False
    """Whether names are too long to stand above columns, so that numbers do."""


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
    shown = [column.name for column in model.columns[:MOST_COLUMNS]]
    each = [] if report.calibration is None else _worst_first(report.calibration)
    return _template().render(
        model=model,
        report=report,
        origin=origin,
        promise=None if report.promise is None else _sentence(report.promise.sentence, report.classes),
        floors=report.floors[:MOST_FLOORS],
        more_floors=max(0, len(report.floors) - MOST_FLOORS),
        measured=list(_measured(report)),
        each=each[:MOST_CLASSES],
        more_classes=max(0, len(each) - MOST_CLASSES),
        matrix=None if report.calibration is None else _matrix(report.calibration, report.classes),
        curves=list(_curves(each, curve_of)),
        columns=shown,
        more_columns=len(model.columns) - len(shown),
        warnings=[note(_sentence(each, report.classes)) for each in report.warnings[:MOST_WARNINGS]],
        more_warnings=max(0, len(report.warnings) - MOST_WARNINGS),
        policy=POLICY,
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


def _matrix(figures: ClassesFigures, classes: list[str]) -> _Matrix:
    if len(classes) > MOST_IN_A_MATRIX:
        return _Matrix([], [], most_confused(figures, classes)[:MOST_CONFUSED])
    lines = [(name, line, place) for place, (name, line) in enumerate(zip(classes, figures.confusion, strict=True))]
    return _Matrix(classes, lines, [], max(map(len, classes)) > MOST_OVER_A_COLUMN)


def _curves(
    each: Sequence[ClassFigures], curve_of: Callable[[str], PrecisionRecallCurve | None]
) -> Iterator[tuple[str, Markup]]:
    """Yield pictures of the classes that are told apart worst."""
    by_f1 = sorted(each, key=lambda figures: -1.0 if figures.f1 is None else figures.f1.value)
    for figures in by_f1[:MOST_CURVES]:
        curve = curve_of(figures.label)
        if curve is not None:
            yield figures.label, class_curve_picture(curve)


def _sentence(text: str, classes: Sequence[str]) -> str:
    """Return a sentence in which the names of the classes are cut, and not what it says of them."""
    for each in classes:
        if len(each) > MOST_OF_A_NAME:
            text = text.replace(each, label(each))
    return shown_text.visible(shares_in_percent(text), MOST_OF_A_SENTENCE)


@functools.cache
def _template() -> Template:
    filters = (label, note, estimate, objective_words, promise_level, shown_text.asked_percent)
    return html_templates(TEMPLATES, filters).get_template("class_report.html")
