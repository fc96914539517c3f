"""The model card: what a model is, what it was asked for, and what it reached, as Markdown for people."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from service.models.repository import Origin
from service.models.schemas import Model, MulticlassModel, OperatingPoint
from service.models.words import alone_words
from service.outcomes import status_words
from solver import percents
from solver.choices import SHARES_OF_OBJECTIVES
from solver.report import Abstention, Estimate, Measures, PositivesOnly, Report

ROWS = ("total", "labelled", "positive", "negative", "unlabelled", "test", "dropped")
MOST_COLUMNS = 50
"""Listed by name."""
MEASURES = ("precision", "recall", "f1", "false_positive_rate", "cost")


def model_card(model: Model, origin: Origin) -> str:
    """Return the card of a model."""
    parts = (
        *(_head(model), _promised(model), _asked(model), _reached(model), _succeeded(model)),
        *(data_lines(model, origin, _rows(model)), notes_lines(model)),
    )
    return "\n".join(line for part in parts for line in part) + "\n"


def _head(model: Model) -> Iterator[str]:
    report = model.report
    yield f"# Model {model.id}"
    yield ""
    names = f", known as {', '.join(map(code, model.aliases))}" if model.aliases else ""
    yield f"Tells {plain_text(report.classes.positive)} from {plain_text(report.classes.negative)}{names}."
    yield f"Made {model.created_at:%Y-%m-%d %H:%M} UTC with {code(model.algorithm)}."
    yield ""
    if model.abstain is None:
        yield f"A row is {plain_text(report.classes.positive)} when its score is above {_threshold(model)}."
    else:
        yield from _abstaining(model, model.abstain)


def _abstaining(model: Model, chosen: Abstention) -> Iterator[str]:
    """Which rows get which label, and which none."""
    parts = model.abstain_probabilities
    for called, at, side, part in (
        (chosen.positive, chosen.upper, "above", parts and parts.upper),
        (chosen.negative, chosen.lower, "not above", parts and parts.lower),
    ):
        as_probability = "" if part is None else f" (a probability of {part:.3g})"
        when = "of no row" if at is None else f"of a row whose score is {side} {at:.6g}{as_probability}"
        yield f"{plain_text(called.label)} is said {when}."
    yield f"All other rows are left undecided. In between lies the threshold of the objective, {_threshold(model)}."


def _threshold(model: Model) -> str:
    part = model.threshold_probability
    as_probability = "" if part is None else f", which is where its probability is above {part:.3g}"
    return f"{model.threshold:.6g}{as_probability}"


def _promised(model: Model) -> Iterator[str]:
    """What can be relied on, of the threshold that decides now."""
    promise = model.promise
    if model.proven_by is not None:
        for audit in model.audits:
            if audit.id == model.proven_by:
                yield from ("", f"**Audit {audit.id}: {plain_text(audit.sentence)}.**")
        if promise is not None:
            yield from ("", plain_text(alone_words(promise)))
    elif promise is not None:
        yield from ("", f"**{plain_text(promise.sentence)}**")
    needs = None if promise is None else promise.needs
    if needs is not None and needs.by_audit and model.proven_by is None:
        dataset = "FILE" if needs.checkable == 0 else model.dataset_id or "FILE"
        asked = f"--objective {model.objective['kind']}={model.objective['target']:g}"
        command = code(f"prefsvm audit {model.id} {dataset} {asked}")
        yield from ("", f"An audit of it begins with {command}, or {code('POST /audits')}.")
    for audit in model.audits:
        if audit.id == model.proven_by:
            continue
        of_another = "" if audit.in_use else f" (by the threshold {audit.threshold:.6g}, which is not in use)"
        yield from ("", f"Audit {audit.id}: {plain_text(audit.sentence)}{of_another}.")


def _asked(model: Model) -> Iterator[str]:
    yield from ("", "## What it was asked for", "")
    yield f"* Trained for {_objective(model.report.objective)}: {_status(model.report, model)}"
    point = model.operating_point
    if point is not None and point.created_at is not None:
        since = f"{point.created_at:%Y-%m-%d %H:%M}"
        by = ", by a threshold that was picked by hand" if point.picked else ""
        yield f"* Since {since} UTC it decides for {_objective(point.objective)}{by}: {_status(point, model)}"


def _reached(model: Model) -> Iterator[str]:
    report, point = model.report, model.operating_point
    rows: list[tuple[str, float | None, Measures | None]] = []
    if point is not None:
        rows.append(("now, calibration rows", point.threshold, point.calibration))
    rows.append(("as trained, calibration rows", report.threshold, report.calibration))
    before = report.refit is not None  # the test rows were learned from since, and what they measured had its threshold
    test_rows = "test rows, before they were learned" if before else "test rows"
    method = f" (by {report.refit.method})" if report.refit is not None and report.refit.method is not None else ""
    rows.append((f"as trained, {test_rows}{method}", None if before else report.threshold, report.test))
    for name, control in report.controls.items():
        rows.append((f"control {name}, calibration rows", control.threshold, control.calibration))
        rows.append((f"control {name}, {test_rows}", None if before else control.threshold, control.test))
    known = [(name, threshold, measured) for name, threshold, measured in rows if measured is not None]
    yield from ("", "## What it reached", "")
    if report.positives_only is not None:
        yield from _without_negatives(report.positives_only)
        return
    yield "With 95 % intervals in brackets, of two sides; what can be counted on, at the top, is a bound of one. The"
    yield "threshold was chosen on the calibration rows, which makes their intervals wider; nothing was fitted to the"
    yield "test rows. The controls are simpler methods on the same rows."
    yield ""
    shown = [name for name in MEASURES if any(getattr(measured, name) is not None for *_, measured in known)]
    body = [
        [plain_text(name), "" if threshold is None else f"{threshold:.4g}", str(measured.n)]
        + [_estimate(measured, measure) for measure in shown]
        for name, threshold, measured in known
    ]
    yield from table(["", "threshold", "rows", *shown], body)
    if report.comparison is not None and report.comparison.returned == "no_unlabelled":
        yield from ("", "The unlabelled rows did not help enough here: this is the model without them.")
    if report.judge is not None:
        yield from ("", plain_text(report.judge.sentence))
    if report.refit is not None:
        yield ""
        yield f"The model that the test rows measured had learned from {report.refit.measured:,} labelled rows. Then it"
        yield f"was trained once more, on all {report.refit.labelled:,}."
    if report.test is None:
        yield from ("", "There were no test rows.")


def _without_negatives(told: PositivesOnly) -> Iterator[str]:
    """What is known of a model that no negative row has measured, as it was trained."""
    yield from (plain_text(told.sentence), "")
    body = [[name, percents.decimals(each.value, each.low, each.high)] for name, each in told.figures]
    yield from table(["as trained", "with a 95 % interval"], body)


def _succeeded(model: Model) -> Iterator[str]:
    """The model that the alias of the training pointed at, beside this one."""
    told = model.report.succession
    if told is None or told.model is None:
        return
    yield from ("", "## Beside the model before", "", plain_text(told.sentence))
    if told.rows is None:
        return
    yield from ("", "Both on the same rows; neither had learned a label of theirs when it decided.", "")
    shown = [name for name in MEASURES if getattr(told.rows.now, name) or getattr(told.rows.before, name)]
    body = [
        [name, str(measured.n), *(_estimate(measured, measure) for measure in shown)]
        for name, measured in ((told.model, told.rows.before), ("this training", told.rows.now))
    ]
    yield from table(["", "rows", *shown], body)


def data_lines(model: Model | MulticlassModel, origin: Origin, rows: str) -> Iterator[str]:
    """Yield what the model was made from; `rows` counts them, in words."""
    request: Mapping[str, Any] = origin.request or {}
    yield from ("", "## Data", "")
    if origin.dataset_name is None:
        yield "* The data set was deleted."
    else:
        yield f"* {plain_text(origin.dataset_name)} ({model.dataset_id}, SHA-256 {code(origin.dataset_sha256 or '')})"
    yield f"* Rows: {rows}"
    if "target" in request:
        yield f"* Labels from the column {plain_text(str(request['target']))}"
    features = request.get("features") or {}
    for word, names in (
        ("Only these columns", features.get("include")),
        ("Without the columns", features.get("exclude")),
    ):
        if names:
            shown = ", ".join(map(plain_text, names[:20])) + (", …" if len(names) > 20 else "")
            yield f"* {word}: {shown}"
    if model.columns:
        known = ", ".join(f"{plain_text(column.name)} ({column.kind})" for column in model.columns[:MOST_COLUMNS])
        more = f" and {len(model.columns) - MOST_COLUMNS} more" if len(model.columns) > MOST_COLUMNS else ""
        yield f"* A row has the columns {known}{more}"
    encoder = model.report.encoder
    if encoder is not None:
        columns = ", ".join(map(plain_text, encoder.columns[:20]))
        yield (
            f"* Texts of {columns} are sent to the encoder {plain_text(encoder.model)} ({encoder.dimensions} numbers), "
            "when predicting, too"
        )
    if "seed" in request:
        yield f"* Seed {request['seed']}, test fraction {request.get('test_fraction', 0):g}"
    if model.report.params:
        yield "* Parameters: " + ", ".join(
            f"{plain_text(name)} = {plain_text(str(value))}" for name, value in sorted(model.report.params.items())
        )


def _rows(model: Model) -> str:
    return ", ".join(f"{getattr(model.report.rows, name):,} {name}" for name in ROWS)


def notes_lines(model: Model | MulticlassModel) -> Iterator[str]:
    """Yield the warnings of the training, and which bytes the model is."""
    if model.report.warnings:
        yield from ("", "## Warnings", "")
        yield from (f"* {plain_text(warning)}" for warning in model.report.warnings)
    yield from ("", "## Bytes", "", f"{model.bytes:,} bytes, SHA-256 {code(model.sha256)}")


def _objective(objective: Mapping[str, Any]) -> str:
    kind = str(objective.get("kind"))
    parts = [
        f"{plain_text(name)} {percents.asked(value) if name in SHARES_OF_OBJECTIVES else f'{value:g}'}"
        for name, value in objective.items()
        if isinstance(value, int | float)
    ]
    abstain = objective.get("abstain")
    if abstain is not None:
        parts.append(f"undecided where precision {percents.asked(abstain['precision'])} is not likely")
    return f"**{plain_text(kind)}**" + (f" ({', '.join(parts)})" if parts else "")


def _status(point: Report | OperatingPoint, model: Model) -> str:
    return f"{status_words(point.objective, point.status) or 'no target'}{_reason(point, model)}"


def _reason(point: Report | OperatingPoint, model: Model) -> str:
    """Return why a point has its status, unless the promise at the top says so: that a target is missed, by how far."""
    promise = model.promise
    is_said = promise is not None and (
        point.status_reason == promise.sentence
        or (promise.level == "missed" and point.status == "preference_unmet" and point.threshold == model.threshold)
    )
    return "" if is_said or not point.status_reason else f". {plain_text(point.status_reason)}"


def _estimate(measured: Measures, name: str) -> str:
    estimate: Estimate | None = getattr(measured, name)
    if estimate is None:
        return "" if name in ("cost", "false_positive_rate") else "undefined"
    return percents.decimals(estimate.value, estimate.low, estimate.high, "[{}, {}]")


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"| {' | '.join(head)} |"
    yield "|" + " --- |" * len(head)
    for row in body:
        yield f"| {' | '.join(row)} |"


def plain_text(text: str) -> str:
    """A text from outside as plain text: on one line, and without a meaning in Markdown or HTML."""
    line = "".join(character if character.isprintable() else " " for character in text[:500])
    return re.sub(r"([\\`*_{}\[\]<>#!|~&$])", r"\\\1", line)


def code(text: str) -> str:
    """Return a text that needs no escaping, as code."""
    return f"`{text}`"
