"""``prefsvm jobs`` and ``models``, and how what came out of a training is shown, wherever it is shown."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.advice import in_flags, print_failure, print_notes
from service.cli.class_figures import print_classes
from service.cli.names import full_id, model_path, path_of
from service.cli.support import DEFAULT_URL, Url, fail, open_client, print_table, short_time
from service.cli.words import (
    abstain_words,
    audit_command,
    feedback_words,
    interval_words,
    objective_words,
    outcome_words,
    promise_words,
    reasons,
    refit_words,
)
from solver import percents
from solver.classes_report import MulticlassReport, is_of_several
from solver.report import Measures, Report, ReportedPoint, Succession

if TYPE_CHECKING:
    from service.cli.client import Connection

Limit = Annotated[int | None, typer.Option(min=1, max=100, help="How many of the newest.", show_default="20")]
DELETED = "a data set that is deleted"


def jobs(
    job: Annotated[
        str | None, typer.Argument(help="Id of one job, its beginning, or @last; without it, the newest jobs.")
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel that job.")] = False,
    keep_best: Annotated[bool, typer.Option("--keep-best", help="With --cancel: keep the best model so far.")] = False,
    limit: Limit = None,
    url: Url = DEFAULT_URL,
) -> None:
    """List the newest jobs, or show or cancel one."""
    with open_client(url) as client:
        if job is None:
            if cancel:
                raise typer.BadParameter("--cancel needs the id of a job")
            found = client.get(_newest("/jobs", limit))["items"]
        elif cancel:
            found = [client.post(f"{path_of(client, '/jobs', job)}/cancel", {"keep_best": keep_best})]
        else:
            found = [client.get(path_of(client, "/jobs", job))]
        names = _dataset_names(client, (each["request"].get("dataset") for each in found))
        made = (
            {m["id"]: m for m in client.get(_newest("/models", limit))["items"]}
            if any(each["model_id"] for each in found) and job is None
            else {}
        )
        rows = [
            (
                each["id"],
                _status(each),
                (each["phase"] or "") if each["status"] == "running" else "",
                short_time(each["created_at"]),
                _promise(each["request"], names, _as_trained(client, each["request"], made.get(each["model_id"]))),
            )
            for each in found
        ]
        print_table("", ("job", "status", "phase", "created", "data set, alias, promise"), rows, below=1)
        for each in found:
            if job and each["finished_at"]:
                print(_ended(each))
            if job and each["status"] == "succeeded" and each["model_id"]:
                print_outcome(client, each)
            elif job:
                print_failure(each)


def _newest(collection: str, limit: int | None) -> str:
    return collection if limit is None else f"{collection}?limit={limit}"


def _status(job: dict[str, Any]) -> str:
    """Say where a job is; of one that somebody has cancelled, that it ends."""
    if job["status"] != "running":
        return str(job["status"])
    return f"{'running' if job['cancel_requested_at'] is None else 'cancelling'} {percents.done(job['progress'])}"


def _ended(job: dict[str, Any]) -> str:
    """Say when a job ended, and how long that took from its start and from when it was asked for."""
    created, started, finished = job["created_at"], job["started_at"], job["finished_at"]
    took = "" if started is None else f"{_seconds(started, finished):,.1f} s after its start, "
    return f"ended {finished[:19].replace('T', ' ')}, {took}{_seconds(created, finished):,.1f} s after it was asked for"


def _seconds(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()


def models(
    model: Annotated[
        str | None, typer.Argument(help="Id (mdl_…), its beginning, an alias, or @last; without it, the newest models.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete that model; no alias may point at it.")] = False,
    limit: Limit = None,
    url: Url = DEFAULT_URL,
) -> None:
    """List the newest models, or show or delete one."""
    with open_client(url) as client:
        if delete:
            if model is None:
                raise typer.BadParameter("--delete needs the id of a model")
            client.delete(model_path(client, model := full_id(client, "/models", model)))
            print(f"{model} is deleted")
            return
        if model is not None:
            print_model(client, client.get(model_path(client, model)))
            return
        found = client.get(_newest("/models", limit))["items"]
        names = _dataset_names(client, (m["dataset_id"] for m in found))
    rows = []
    for m in found:
        asked = {"dataset": m["dataset_id"], "objective": m["objective"], "alias": ", ".join(m["aliases"])}
        rows.append((m["id"], m["algorithm"], short_time(m["created_at"]), _promise(asked, names, m)))
    print_table("", ("model", "algorithm", "created", "data set, aliases, promise"), rows, below=1)


def _dataset_names(client: Connection, ids: Iterable[str | None]) -> dict[str, str]:
    """Return the names of data sets; those that are gone have none."""
    from service.cli.client import NotFoundError

    names = {}
    for each in dict.fromkeys(filter(None, ids)):
        with suppress(NotFoundError):
            names[each] = str(client.get(path_of(client, "/datasets", each))["name"])
    return names


def _promise(request: dict[str, Any], names: dict[str, str], model: dict[str, Any] | None) -> str:
    """Say on what a training was, for which alias, what was asked of it, and what came out if that is known."""
    of = names.get(request.get("dataset") or "", DELETED)
    alias = _aliases(request.get("alias"))
    objective = request.get("objective") or {}
    outcome = "" if model is None else promise_words(model)
    asked = objective_words(objective) if objective else ""  # a damaged model tells none
    return f"{of}{alias}: " + ": ".join(filter(None, (asked, outcome)))


def _as_trained(client: Connection, request: dict[str, Any], model: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what came of what a training was asked for, where its model has another objective by now."""
    if model is None or model["status"] == "damaged":
        return model
    asked, in_use = request.get("objective") or {}, model["objective"]
    if objective_words(asked) == objective_words(in_use):
        return model
    trained: dict[str, Any] = client.get(model_path(client, model["id"]))["report"]
    return trained


def _on(dataset: str | None, names: dict[str, str]) -> str:
    return f"on {names[dataset]} ({dataset})" if dataset in names else f"on {DELETED}"


def _aliases(names: str | None) -> str:
    return f" → {names}" if names else ""


# --- one outcome -----------------------------------------------------------------------------------------------------


def print_outcome(client: Connection, job: dict[str, Any]) -> None:
    """Print the id of the model that a job has made, and what was measured; end the command where it has made none."""
    if job["status"] != "succeeded":
        reason = f": {in_flags(job['error']['message'])}" if job["error"] else ""
        fail(f"the job ended as {job['status']}{reason}")
    print_model(client, client.get(model_path(client, job["model_id"])))


def print_model(client: Connection, model: dict[str, Any]) -> None:
    """Print the id of a model, what it was trained on, what was asked of it, what came out, and how it was measured."""
    print(model["id"])
    names = _dataset_names(client, [model["dataset_id"]])
    print(f"trained {_on(model['dataset_id'], names)}{_aliases(', '.join(model['aliases']))}")
    if is_of_several(model["report"]):
        print_classes(MulticlassReport.from_dict(model["report"]), model.get("operating_point"))
        return
    report, applied = Report.from_dict(model["report"]), model["operating_point"]
    # What decides now; the report always shows what the training chose.
    point = ReportedPoint.from_dict(applied) if applied else report
    print(f"{report.algorithm}, objective {outcome_words(point)}")
    proven_by, audits = model.get("proven_by"), model.get("audits", [])  # of which an older service knows nothing
    for audit in audits:
        if audit["id"] == proven_by:
            print(f"{audit['id']}: {audit['sentence']}")
    for reason in reasons(point, is_proven=proven_by is not None):
        print(reason)
    for audit in audits:
        if audit["id"] != proven_by:
            print(
                f"{audit['id']}: {audit['sentence']}{'' if audit['in_use'] else '; by a threshold that is not in use'}"
            )
    command = audit_command(model, point)
    if command is not None and not audits and proven_by is None:
        print(f"the audit: {command}")
    part = model.get("threshold_probability")
    as_probability = "" if part is None else f", a probability of {part:.3g}"
    print(f"threshold {point.threshold:.6g} on the score for {report.classes.positive!r}{as_probability}")
    if point.abstain is not None:
        print(abstain_words(point.abstain))
    if applied:
        trained = objective_words(report.objective)
        print(f"applied {short_time(applied['created_at'])}; trained for {trained}, threshold {report.threshold:.6g}")
    # Nothing is known of the test rows at a threshold that was applied later.
    method = None if report.refit is None else report.refit.method
    tested = ", ".join(filter(None, ("test", method and f"of {method}", "as trained" if applied else "")))
    # The measures are those of the threshold itself, whether or not rows around it get a label.
    called = "called positive" if point.abstain is None else "above the threshold"
    print_measures(("calibration", point.calibration), (tested, report.test), called=called)
    if report.positives_only is not None:
        known = [
            (name, percents.decimals(each.value, each.low, each.high)) for name, each in report.positives_only.figures
        ]
        print_table("", ("as trained, no negative row seen", "with a 95 % interval"), known)
        print(report.positives_only.sentence)
    _print_succession(report.succession)
    if report.refit is not None:
        print(refit_words(report.refit))
    if report.feedback is not None:
        print(feedback_words(report.feedback))
    judged = [] if report.judge is None else [report.judge.sentence]
    print_notes((*judged, *_comparison_notes(report), *report.warnings), sys.stdout)


def _print_succession(told: Succession | None) -> None:
    """Print both models on the same rows, and where the alias points."""
    if told is None:
        return
    if told.rows is not None:
        title = f"beside {told.model}, on rows that neither had learned"
        print_measures(("before", told.rows.before), ("now", told.rows.now), title=title)
    if told.moved:  # else it is among the warnings
        print(told.sentence)


def print_measures(*measured: tuple[str, Measures | None], title: str = "", called: str = "called positive") -> None:
    """Print a table of what was measured, with a column for each set of rows, calibration rows first."""
    known = [(name, measures) for name, measures in measured if measures is not None]
    shown = {"precision": "precision", "recall": "recall", "f1": "F1"}
    if any(measures.false_positive_rate is not None for _, measures in known):
        shown["false_positive_rate"] = "false positives"
    if any(measures.cost is not None for _, measures in known):
        shown["cost"] = "cost of a row"
    rows = [
        ("rows", *(measures.n for _, measures in known)),
        (called, *(measures.predicted_positives for _, measures in known)),
        *((word, *(interval_words(getattr(measures, each)) for _, measures in known)) for each, word in shown.items()),
    ]
    if known:
        print_table(title, ("", *(name for name, _ in known)), rows)
    if known and not title:
        print("in brackets are 95 % intervals, of two sides; what can be counted on, above, is a bound of one")


def _comparison_notes(report: Report) -> Iterator[str]:
    """Say when the guard (parameter `mode`) returned the model without the unlabelled rows."""
    comparison = report.comparison
    if comparison is None or comparison.returned != "no_unlabelled":
        return
    gain = comparison.gain
    match report.objective.get("kind"):
        case "f1":
            measure = "F1"
        case "f_beta":
            measure = "F-beta"
        case "cost":
            measure, gain = "cost of a row", -gain
        case _:
            measure = "F1 minus the shortfall from the target"
    yield (
        f"the unlabelled rows did not help enough ({measure} {gain:+.3g}, standard error "
        f"{comparison.standard_error:.3g}): this is the same method without them (--param mode=method keeps it)"
    )
