"""The card of a model of several classes, as Markdown for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from service.models.card import code, data_lines, notes_lines, plain_text, table
from service.models.class_figures import MOST_CONFUSED, confusion
from service.models.class_points import report_in_use
from service.models.repository import Origin
from service.models.schemas import MulticlassModel
from service.outcomes import LEFT_OUT_ROWS, status_words
from solver import percents
from solver.classes_report import ClassFigures
from solver.report import Estimate

MOST_IN_A_MATRIX = 30
"""Classes of which the confusion matrix is shown whole; the report has it of all."""
CONTROLS = {"majority": "the largest class of every row", "plain_svm": "the supervised SVM"}


def card_of_classes(model: MulticlassModel, origin: Origin) -> str:
    """Return the card of a model."""
    model = model.model_copy(update={"report": report_in_use(model)})
    counted = model.report.rows
    rows = f"{counted.total:,} total, {counted.labelled:,} labelled, {counted.unlabelled:,} unlabelled, " + (
        f"{counted.test:,} test, {counted.dropped:,} dropped"
    )
    parts = (_head(model), _asked(model), _reached(model), _each_class(model), _confused(model))
    lines = (line for part in (*parts, data_lines(model, origin, rows), notes_lines(model)) for line in part)
    return "\n".join(lines) + "\n"


def _head(model: MulticlassModel) -> Iterator[str]:
    report = model.report
    names = f", known as {', '.join(map(code, model.aliases))}" if model.aliases else ""
    problems = "each pair of them" if report.scheme == "one_vs_one" else "each of them against the rest"
    yield f"# Model {model.id}"
    yield ""
    yield f"Tells {len(report.classes)} classes apart{names}."
    yield f"Made {model.created_at:%Y-%m-%d %H:%M} UTC with {code(model.algorithm)}, a problem of two for {problems}."
    if report.promise is not None:
        yield from ("", f"**{plain_text(report.promise.sentence)}**")
    if model.operating_point is not None:
        applied = f"{model.operating_point.created_at:%Y-%m-%d %H:%M} UTC"
        yield from ("", f"What was asked of it was changed on {applied}, without training. Figures of left-out rows")
        yield "are of what is asked now, those of test rows and controls of what was asked when it was trained."


def _asked(model: MulticlassModel) -> Iterator[str]:
    report = model.report
    reason = f". {plain_text(report.status_reason)}" if report.status_reason else ""
    asked = (objective_words(report.objective), status_words(report.objective, report.status, LEFT_OUT_ROWS))
    yield from (
        "",
        "## What it was asked for",
        "",
        f"* {': '.join(filter(None, asked))}{reason}",
    )
    for floor in report.floors:
        outcome = "reached" if floor.met else "not reached"
        yield f"* {plain_text(floor.label)}: {floor.measure} {percents.asked(floor.target)}, {outcome} on left-out rows"


def objective_words(objective: Mapping[str, Any]) -> str:
    """Say in Markdown what was asked for."""
    confidence = objective.get("confidence")
    more = "" if confidence is None else f", floors with confidence {percents.asked(confidence)}"
    costs = [
        f"{plain_text(str(true))} taken for {plain_text(str(said))} costs {cost:g}"
        for true, each in (objective.get("costs") or {}).items()
        for said, cost in each.items()
    ]
    shown = f" ({'; '.join(costs[:MOST_CONFUSED])})" if costs else ""
    return f"**{plain_text(str(objective.get('kind')))}**{shown}{more}"


def _reached(model: MulticlassModel) -> Iterator[str]:
    report = model.report
    test_rows = "test rows" if report.refit is None else "test rows, before they were learned"
    found = [("left-out rows", report.calibration), (test_rows, report.test)]
    for name, control in report.controls.items():
        said = CONTROLS.get(name, name)
        found += [
            (f"control: {said}, left-out rows", control.calibration),
            (f"control: {said}, {test_rows}", control.test),
        ]
    known = [(name, figures) for name, figures in found if figures is not None]
    yield from ("", "## What it reached", "")
    yield "With 95 % intervals in brackets. Each left-out row was decided by models, probabilities and a rule that it"
    yield "had no say in; nothing was fitted to the test rows."
    yield ""
    has_cost = any(figures.cost is not None for _, figures in known)
    head = ["", "rows", "undecided", "accuracy", "macro-F1", *(["cost of a decided row"] if has_cost else [])]
    body = [
        [
            *(plain_text(name), str(figures.n), str(figures.undecided)),
            *(_estimate(figures.accuracy), _estimate(figures.macro_f1)),
            *([] if not has_cost else ["" if figures.cost is None else f"{figures.cost:.4g}"]),
        ]
        for name, figures in known
    ]
    yield from table(head, body)
    if report.refit is not None:
        yield ""
        yield f"The model that the test rows measured had learned from {report.refit.measured:,} labelled rows. Then it"
        yield f"was trained once more, on all {report.refit.labelled:,}."
    if report.succession is not None and report.succession.model is not None:
        yield from ("", "## Beside the model before", "", plain_text(report.succession.sentence))


def _each_class(model: MulticlassModel) -> Iterator[str]:
    figures = model.report.calibration
    if figures is None:
        return
    yield from ("", "## Each class, on left-out rows", "")
    yield from table(["", "rows", "said", "precision", "recall", "F1"], [_line(each) for each in figures.classes])


def _line(each: ClassFigures) -> list[str]:
    return [
        *(plain_text(each.label), str(each.rows), str(each.said)),
        *(_estimate(each.precision), _estimate(each.recall), _estimate(each.f1)),
    ]


def _confused(model: MulticlassModel) -> Iterator[str]:
    """The confusion matrix; of very many classes those that are taken for each other most."""
    found = confusion(model.report, MOST_IN_A_MATRIX)
    if found is None:
        return
    yield from ("", "## Which are taken for which", "")
    if found.names:
        yield "Left-out rows by their class (lines) and by what was said of them (columns)."
        yield ""
        names = [plain_text(name) for name in found.names]
        body = [[plain_text(name), *map(str, line)] for name, line, _ in found.lines]
        yield from table(["", *names, "undecided"], body)
        return
    body = [[plain_text(true), plain_text(said), str(rows)] for rows, true, said in found.worst]
    yield from table(["is", "was said to be", "rows"], body)


def _estimate(estimate: Estimate | None) -> str:
    return (
        "undefined" if estimate is None else percents.decimals(estimate.value, estimate.low, estimate.high, "[{}, {}]")
    )
