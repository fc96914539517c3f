"""The report of a model to send: one HTML file without scripts that loads nothing, and prints on two pages."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Template

from service import shown_text
from service.html_templates import html_templates
from service.models.figures import (
    Compared,
    calibration_picture,
    compared,
    curve_picture,
    of_thousand,
    scores_picture,
    succeeded,
)
from service.models.repository import Origin
from service.models.schemas import Model, ModelAudit, MulticlassModel, Thresholds
from service.models.words import alone_words, objective_words, promise_level
from solver.report import Estimate

TEMPLATES = Path(__file__).parent / "templates"
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Also written into the file: whoever opens it from a folder has no header."""
MOST_WARNINGS, MOST_AUDITS, MOST_COLUMNS = 4, 2, 10
MOST_OF_A_SENTENCE, MOST_OF_A_NOTE, MOST_OF_A_NAME = 400, 200, 32
"""Of what may be long, so that two pages do; the card has all of it."""


def html_report(model: Model, thresholds: Thresholds | None, origin: Origin) -> str:
    """Return the report of a model; `thresholds` is None where its curve was not kept."""
    report = model.report
    in_use = model.operating_point or report
    names = (report.classes.positive, report.classes.negative)
    return report_template("report.html").render(
        **shared(model, names),
        model=model,
        report=report,
        in_use=in_use,
        origin=origin,
        thousand=of_thousand(in_use.calibration, in_use.abstain),
        curve=None if thresholds is None else curve_picture(thresholds),
        scores=None if thresholds is None else scores_picture(thresholds, in_use.abstain),
        thresholds=thresholds,
        calibration=calibration_picture(report),
        compared=_few_bars(list(compared(model))),
        succeeded=_few_bars(succeeded(report)),
        promised=[sentence(each, names) for each in _promised(model)],
        audits=[(sentence(each.sentence, names), each.in_use) for each in _other_audits(model)],
    )


def shared(model: Model | MulticlassModel, classes: Sequence[str]) -> dict[str, Any]:
    """Return what the reports of two and of several classes show in the same words."""
    warnings = model.report.warnings
    return {
        "columns": [column.name for column in model.columns[:MOST_COLUMNS]],
        "more_columns": len(model.columns) - MOST_COLUMNS,
        "warnings": [note(sentence(each, classes)) for each in warnings[:MOST_WARNINGS]],
        "more_warnings": max(0, len(warnings) - MOST_WARNINGS),
        "policy": POLICY,
    }


def _promised(model: Model) -> list[str]:
    """Return what can be relied on: where an audit has proven the target, that first, and then what the labels say."""
    proofs = [
        f"{audit.sentence[:1].upper()}{audit.sentence[1:]}." for audit in model.audits if audit.id == model.proven_by
    ]
    if model.promise is None:
        return proofs
    return [
        *proofs,
        model.promise.sentence if model.proven_by is None else alone_words(model.promise),
    ]


def _other_audits(model: Model) -> list[ModelAudit]:
    return [audit for audit in model.audits if audit.id != model.proven_by][
        : MOST_AUDITS - (model.proven_by is not None)
    ]


def _few_bars(found: Sequence[Compared]) -> list[Compared]:
    """Return the measures that the objective speaks of first: two, so that two pages do."""
    return list(found)[:2]


def sentence(text: str, classes: Sequence[str]) -> str:
    """Return a sentence in which the names of the classes are cut, and not what it says of them."""
    for each in classes:
        if len(each) > MOST_OF_A_NAME:
            text = text.replace(each, label(each))
    return shown_text.visible(text, MOST_OF_A_SENTENCE)


def label(text: str) -> str:
    """Return a name, cut."""
    return shown_text.visible(text, MOST_OF_A_NAME)


def note(text: str) -> str:
    """Return what stands among other things, cut."""
    return shown_text.visible(text, MOST_OF_A_NOTE)


def estimate(value: Estimate | None, *, as_share: bool = True) -> str:
    """Return a measure with its interval."""
    if value is None:
        return "–"
    said = shown_text.percent if as_share else shown_text.number
    return f"{said(value.value)} ({said(value.low)} to {said(value.high)})"


@functools.cache
def report_template(name: str) -> Template:
    """Return a template of a report."""
    filters = (label, note, estimate, objective_words, promise_level, shown_text.asked_percent)
    return html_templates(TEMPLATES, filters).get_template(name)
