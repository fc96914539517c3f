"""What a model of several classes reached, as the command line prints it."""

from __future__ import annotations

import sys
from typing import Any

from service.cli.advice import print_notes
from service.cli.support import print_table
from service.cli.words import feedback_words, interval_words, objective_words, refit_words
from solver.classes_report import ClassesFigures, MulticlassReport

MOST_IN_A_MATRIX = 12
"""Classes whose confusion matrix fits on a screen."""
LONGEST_NAME = 40
"""Characters of a class in a table."""
_STATUS_WORDS = {"met": "", "preference_unmet": "not reached on the left-out rows"}
"""Of statuses that need others; what is met has floors at most, of which the promise tells."""


def print_classes(report: MulticlassReport) -> None:
    """Print what was asked of a model of several classes, what came out, and how it was measured."""
    outcome = (objective_words(report.objective), _STATUS_WORDS.get(report.status, report.status))
    print(f"{report.algorithm}, {report.scheme}, objective {': '.join(filter(None, outcome))}")
    if report.promise is not None:
        print(report.promise.sentence)
    elif report.status_reason:
        print(report.status_reason)
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


def _print_figures(found: dict[str, ClassesFigures]) -> None:
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
    print("in brackets are 95 % intervals; the plain SVM and the largest class are measured on the left-out rows, too")


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
