"""What a model of several classes reached, as the command line prints it."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from service.cli.advice import print_notes
from service.cli.support import print_table, short_time
from service.cli.words import feedback_words, interval_words, objective_words, refit_words
from service.outcomes import LEFT_OUT_ROWS, status_words
from solver.classes_report import ClassesFigures, MulticlassReport
from solver.report import Promise

MOST_IN_A_MATRIX = 12
"""Classes whose confusion matrix fits on a screen."""
LONGEST_NAME = 40
"""Characters of a class in a table."""
_INTERVALS = (
    "in brackets are 95 % intervals; the plain SVM and the largest class are measured on the left-out rows, too"
)


def print_classes(trained: MulticlassReport, applied: dict[str, Any] | None = None) -> None:
    """Print what was asked of a model of several classes, what came out, and how it was measured.

    Parameters
    ----------
    trained : MulticlassReport
    applied : dict, optional
        The operating point that was applied since.
    """
    report = trained if applied is None else _as_applied(trained, applied)
    outcome = (objective_words(report.objective), status_words(report.objective, report.status, LEFT_OUT_ROWS))
    print(f"{report.algorithm}, {report.scheme}, objective {': '.join(filter(None, outcome))}")
    if report.promise is not None:
        print(report.promise.sentence)
    elif report.status_reason:
        print(report.status_reason)
    if applied is not None:
        print(f"applied {short_time(applied['created_at'])}; trained for {objective_words(trained.objective)}")
    found = {"left-out rows": report.calibration, "test": report.test}
    for name, said in (("majority", "largest class"), ("plain_svm", "plain SVM")):
        if name in report.controls:
            found[said] = report.controls[name].calibration
    _print_figures({name: figures for name, figures in found.items() if figures is not None})
    if report.calibration is not None:
        _print_each(report.calibration)
        _print_confusion(report.calibration)
    if report.refit is not None:
        print(refit_words(report.refit))
    if report.feedback is not None:
        print(feedback_words(report.feedback))
    if report.succession is not None and report.succession.moved:
        print(report.succession.sentence)
    print_notes(report.warnings, sys.stdout)


def _as_applied(trained: MulticlassReport, applied: dict[str, Any]) -> MulticlassReport:
    """The report as of a point that was applied since."""
    figures, promise = applied["calibration"], applied["promise"]
    return replace(
        trained,
        objective=applied["objective"],
        status=applied["status"],
        status_reason=applied["status_reason"],
        calibration=None if figures is None else ClassesFigures.from_dict(figures),
        promise=None if promise is None else Promise.from_dict(promise),
    )


def print_rule(point: dict[str, Any], *, applied: bool) -> None:
    """Print what a rule for another objective gives."""
    outcome = status_words(point["objective"], point["status"], LEFT_OUT_ROWS)
    said = ": ".join(filter(None, (objective_words(point["objective"]), outcome)))
    print(f"{said}{', in use now' if applied else ''}")
    if point["promise"] is not None:
        print(point["promise"]["sentence"])
    if point["calibration"] is not None:
        figures = ClassesFigures.from_dict(point["calibration"])
        _print_figures({"left-out rows": figures}, note="in brackets are 95 % intervals")
        _print_each(figures)
        _print_confusion(figures)


def _print_figures(found: dict[str, ClassesFigures], note: str = _INTERVALS) -> None:
    if not found:
        return
    rows: list[tuple[Any, ...]] = [
        ("rows", *(each.n for each in found.values())),
        ("undecided", *(each.undecided for each in found.values())),
        ("accuracy", *(interval_words(each.accuracy) for each in found.values())),
        ("macro-F1", *(interval_words(each.macro_f1) for each in found.values())),
    ]
    if any(each.cost is not None for each in found.values()):
        costs = ("" if each.cost is None else f"{each.cost:.4g}" for each in found.values())
        rows.append(("cost of a decided row", *costs))
    print_table("", ("", *found), rows)
    print(note)


def _print_each(figures: ClassesFigures) -> None:
    rows = [
        (_short(each.label), each.rows, each.said, *map(interval_words, (each.precision, each.recall, each.f1)))
        for each in figures.classes
    ]
    print_table("each class, on the left-out rows", ("class", "rows", "said", "precision", "recall", "F1"), rows)


def _print_confusion(figures: ClassesFigures) -> None:
    names = [_short(each.label) for each in figures.classes]
    if len(names) > MOST_IN_A_MATRIX:
        return
    rows = [(name, *line) for name, line in zip(names, figures.confusion, strict=True)]
    print_table("what was said of the rows of each class", ("class", *names, "undecided"), rows)


def _short(label: str) -> str:
    return label if len(label) <= LONGEST_NAME else label[:LONGEST_NAME] + "…"
