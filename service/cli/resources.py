"""``prefsvm datasets`` and ``aliases``, and what is done with one job (``retry``) or model (``export``)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import typer

from service.cli.advice import RUNNING, columns_left_out, print_notes
from service.cli.class_figures import print_rule
from service.cli.improving import alias_shadow
from service.cli.models import print_measures
from service.cli.names import full_id, model_path, path_of
from service.cli.support import (
    DEFAULT_URL,
    AbstainOption,
    CertificateOption,
    Url,
    by_suffix,
    download,
    open_client,
    print_table,
    short_time,
    short_value,
)
from service.cli.words import abstain_words, objective_words, outcome_words, promise_words, reasons
from solver import percents
from solver.report import ReportedPoint

ModelName = Annotated[str, typer.Argument(help="Id (mdl_…) or alias of a model.")]
JobId = Annotated[str, typer.Argument(help="Id of the job.")]
Out = Annotated[Path | None, typer.Option(help="File to write.", show_default="standard output")]


class CurveKind(StrEnum):
    """Curves that a model has."""

    PR = "pr"
    ROC = "roc"
    COST = "cost"
    THRESHOLDS = "thresholds"


class ModelFormat(StrEnum):
    """Forms that a model can be taken away in."""

    SAFETENSORS = "safetensors"
    ONNX = "onnx"
    LIBSVM = "libsvm"


# --- data sets -------------------------------------------------------------------------------------------------------

datasets_app = typer.Typer(help="Data sets that were uploaded (prefsvm upload).")
DatasetId = Annotated[str, typer.Argument(help="Id of the data set.")]


@datasets_app.command("list")
def datasets_list(
    fits: Annotated[
        str | None,
        typer.Option(help="Only those with the columns of this model: its id, or an alias.", show_default="all"),
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """List data sets, newest first."""
    with open_client(url) as client:
        found = list(client.items("/datasets" if fits is None else f"/datasets?{urlencode({'fits': fits})}"))
    rows = [(d["id"], d["format"], d["rows"], d["bytes"], short_time(d["created_at"]), d["name"]) for d in found]
    print_table("", ("data set", "format", "rows", "bytes", "created", "name"), rows, below=1)


@datasets_app.command("show")
def datasets_show(
    dataset: DatasetId,
    columns_from: Annotated[
        int | None, typer.Option(min=0, help="Number of the first column to show, from 0; at most 1,000 are.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Show what each column of a data set is, and what was noticed."""
    with open_client(url) as client:
        path = path_of(client, "/datasets", dataset)
        found = client.get(path if columns_from is None else f"{path}?columns_from={columns_from}")
    RUNNING.dataset = found["id"]
    _print_dataset(found)


@datasets_app.command("rows")
def datasets_rows(
    dataset: DatasetId,
    first: Annotated[int, typer.Option(min=0, help="Number of the first row, from 0.")] = 0,
    rows: Annotated[int, typer.Option(min=1, max=100, help="Rows, at most.")] = 10,
    column: Annotated[
        list[str] | None, typer.Option(help="Column to show; may be repeated. Default: the first 1,000.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Show rows of a data set as they were read, a value a line; texts are cut."""
    asked = urlencode({"first": first, "limit": rows, "characters": 200, "column": column or []}, doseq=True)
    with open_client(url) as client:
        found = client.get(f"{path_of(client, '/datasets', dataset)}/rows?{asked}")
    values = [
        (first + place, name, _shown(value)) for place, row in enumerate(found["items"]) for name, value in row.items()
    ]
    print_table(f"of {found['total']} rows", ("row", "column", "value"), values, below=2)


@datasets_app.command("spread")
def datasets_spread(dataset: DatasetId, url: Url = DEFAULT_URL) -> None:
    """Show how the numbers of each column are spread between their least and their greatest."""
    with open_client(url) as client:
        found = client.get(f"{path_of(client, '/datasets', dataset)}/histograms")
    spread = [(each["column"], each["least"], _bars(each["counts"]), each["greatest"]) for each in found["columns"]]
    print_table(f"the first {found['rows']} rows", ("column", "from", "", "to"), spread, below=1)


def _bars(counts: Sequence[int]) -> str:
    most = max((*counts, 1))
    return "".join(" ▁▂▃▄▅▆▇█"[-(-8 * count // most)] for count in counts)


@datasets_app.command("correct")
def datasets_correct(
    dataset: DatasetId,
    kind: Annotated[list[str], typer.Option(help="column=number, category, text or date; may be repeated.")],
    url: Url = DEFAULT_URL,
) -> None:
    """Say what columns are, where the guess was wrong; possible until a job has used the data set."""
    columns = dict(_pair(each) for each in kind)
    with open_client(url) as client:
        _print_dataset(client.patch(path_of(client, "/datasets", dataset), {"columns": columns}))


@datasets_app.command("delete")
def datasets_delete(dataset: DatasetId, url: Url = DEFAULT_URL) -> None:
    """Delete a data set; its jobs and models stay."""
    with open_client(url) as client:
        client.delete(path_of(client, "/datasets", dataset := full_id(client, "/datasets", dataset)))
    print(f"{dataset} is deleted")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{text!r} is not column=kind")
    return name, value


def _print_dataset(dataset: dict[str, Any]) -> None:
    rows = [(c["name"], c["kind"], c["missing"], _shown(c.get("distinct")), *_bounds(c)) for c in dataset["columns"]]
    title = f"{dataset['id']}  {dataset['name']}  {dataset['rows']} rows"
    print_table(title, ("column", "kind", "missing", "distinct", "min", "max"), rows)
    print_notes([*columns_left_out(dataset), *dataset["warnings"]], sys.stdout)


def _bounds(column: dict[str, Any]) -> tuple[object, object]:
    dates = column.get("earliest"), column.get("latest")
    low, high = dates if dates[0] is not None else (column.get("min"), column.get("max"))
    return _shown(low), _shown(high)


def _shown(value: object) -> object:
    return "" if value is None else value


# --- jobs ------------------------------------------------------------------------------------------------------------


def retry(job: JobId, url: Url = DEFAULT_URL) -> None:
    """Run a job that has ended again, as a new job, and print its id."""
    with open_client(url) as client:
        print(client.post(f"{path_of(client, '/jobs', job)}/retry")["id"])


def follow(job: JobId, url: Url = DEFAULT_URL) -> None:
    """Print the events of a job as they come, until it ends."""
    with open_client(url) as client:
        for event in client.events(f"{path_of(client, '/jobs', job)}/events"):
            told = " ".join(f"{name}={short_value(value)}" for name, value in event["data"].items())
            when = event["created_at"][:23].rstrip("Z")  # to the millisecond: small jobs are quick
            print(f"{when:<23}  {event['kind']:<10} {told}".rstrip(), flush=True)


# --- models ----------------------------------------------------------------------------------------------------------


def threshold(
    model: ModelName,
    objective: Annotated[
        str | None,
        typer.Option(
            help="precision=0.99, recall=0.95, ham_loss=0.001, f1, f_beta=2 or cost=10:1, as for prefsvm train; "
            "of several classes macro_f1, accuracy, or JSON.",
            show_default="list those that were applied, without --at",
        ),
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="Probability with which the target is to hold on new rows.")
    ] = None,
    certificate: CertificateOption = None,
    abstain: AbstainOption = None,
    at: Annotated[
        float | None,
        typer.Option(
            help="This threshold, one of `prefsvm curve MODEL thresholds`, and not the one that is likely to do; what "
            "is asked of the model stays, unless there is an --objective.",
            show_default="chosen for the objective",
        ),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Let the model decide by it from now on.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Choose the threshold for another objective, without training, or list those that were applied."""
    from service.cli.client import parse_objective

    if objective is None and ((confidence, certificate, abstain) != (None, None, None) or (apply and at is None)):
        raise typer.BadParameter(
            "--confidence, --certificate and --abstain need an --objective, and --apply needs that or --at"
        )
    if objective is None and at is None:
        with open_client(url) as client:
            applied = list(client.items(f"{model_path(client, model)}/operating-points"))
        points = [
            (
                short_time(p["created_at"]),
                "by class" if "threshold" not in p else f"{p['threshold']:.6g}" + (" picked" if p["picked"] else ""),
                objective_words(p["objective"]),
                promise_words(p),
            )
            for p in applied
        ]
        print_table("", ("applied", "threshold", "objective", "promise"), points)
        return
    try:
        wanted = None if objective is None else parse_objective(objective, confidence, certificate, abstain)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    with open_client(url) as client:
        body = {"objective": wanted, "threshold": at, "apply": apply}
        answer = client.post(f"{model_path(client, model)}/operating-points", body)
    if "threshold" not in answer:
        print_rule(answer, applied=apply)
        return
    point = ReportedPoint.from_dict(answer)
    print(f"threshold {point.threshold:.6g} for {outcome_words(point)}" + (", in use now" if apply else ""))
    if point.abstain is not None:
        print(abstain_words(point.abstain))
    for reason in reasons(point):
        print(reason)
    print_measures(("calibration", point.calibration))


def curve(
    model: ModelName,
    kind: Annotated[CurveKind, typer.Argument(help="Which curve.")] = CurveKind.PR,
    out: Annotated[
        Path | None, typer.Option(help="File to write; .svg and .png are pictures, .json is JSON.", show_default="JSON")
    ] = None,
    label: Annotated[
        str | None, typer.Option("--class", help="Which of several classes, against all others.", show_default=False)
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Print the curve of the calibration rows as JSON, or draw it, with the point in use.

    `thresholds` is JSON only: all that each threshold gives, with intervals.
    """
    forms = {".svg": "image/svg+xml", ".png": "image/png", ".json": "application/json"}
    form = by_suffix(out, forms, "application/json")
    if kind is CurveKind.THRESHOLDS and form != "application/json":
        raise typer.BadParameter("thresholds come as JSON only")
    with open_client(url) as client:
        which = "thresholds" if kind is CurveKind.THRESHOLDS else f"curves/{kind}"
        which += "" if label is None else f"?{urlencode({'class': label})}"
        download(client, f"{model_path(client, model)}/{which}", out, form)


def drift(
    model: ModelName,
    days: Annotated[int, typer.Option(min=1, max=366, help="How far back.")] = 7,
    url: Url = DEFAULT_URL,
) -> None:
    """Show how the rows that a model met while predicting differ from those that it was trained on."""
    with open_client(url) as client:
        found = client.get(f"{model_path(client, model)}/drift?days={days}")
    if "classes" in found:
        _print_class_drift(found)
        return
    rows = [
        ("rows", found["rows"]),
        ("score outside those of the calibration", _percent(found["outside_range_share"])),
        ("predicted positive at the threshold in use", _percent(found["positive_share"])),
        *([("left undecided", _percent(found["undecided_share"]))] if found.get("abstain") else []),
        ("positive by estimate", _estimated(found["prior"])),
        ("positive in training", _percent(found["prior"]["training"])),
        *((f"unseen values in {column['column']}", _percent(column["share"])) for column in found["unseen"]),
    ]
    print_table(f"{found['model_id']}, last {days} days", ("", ""), rows)
    print_notes(found["unknown"], sys.stdout)


def _print_class_drift(found: dict[str, Any]) -> None:
    """Print how often each of several classes is said."""
    rows = [
        ("rows", found["rows"]),
        ("a number far outside those of the training", _percent(found["outside_range_share"])),
        ("decided by the rule in use", found["rows_by_rule"]),
        ("of these left undecided", _percent(found["undecided_share"])),
        ("left undecided of the left-out rows", _percent(found["undecided_calibration"])),
        *((f"unseen values in {column['column']}", _percent(column["share"])) for column in found["unseen"]),
    ]
    print_table(f"{found['model_id']}, last {found['days']} days", ("", ""), rows)
    classes = [
        (
            *(each["label"], each["rows"], _percent(each["share"])),
            "" if each["low"] is None else f"{_percent(each['low'])} to {_percent(each['high'])}",
            *(_percent(each["calibration"]), _percent(each["training"])),
        )
        for each in found["classes"]
    ]
    print_table("", ("class", "rows", "said", "interval", "of left-out rows", "in training"), classes)
    print_notes(found["unknown"], sys.stdout)


def _estimated(prior: dict[str, float | None]) -> str:
    estimate = _percent(prior["estimate"])
    return estimate if prior["low"] is None else f"{estimate} ({_percent(prior['low'])} to {_percent(prior['high'])})"


def _percent(share: float | None) -> str:
    return "unknown" if share is None else percents.measured(share)


def download_card(
    model: ModelName,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write; .html is a report to send, with pictures, that prints on two pages.",
            show_default="standard output",
        ),
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Print what is to be known of a model (its model card), in Markdown, or write a report with pictures."""
    form = "report.html" if out is not None and out.suffix.lower() == ".html" else "card"
    with open_client(url) as client:
        download(client, f"{model_path(client, model)}/{form}", out)


def download_model(
    model: ModelName,
    form: Annotated[ModelFormat, typer.Option("--format", help="Form of the file.")] = ModelFormat.SAFETENSORS,
    out: Out = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Write the file of a model, with the threshold in use, to decide without the service."""
    with open_client(url) as client:
        download(client, f"{model_path(client, model)}/export?format={form}", out)


# --- aliases ---------------------------------------------------------------------------------------------------------

aliases_app = typer.Typer(help="Names, such as spam-filter, that move between models.")
AliasName = Annotated[str, typer.Argument(help="The alias.")]


@aliases_app.command("list")
def aliases_list(url: Url = DEFAULT_URL) -> None:
    """List aliases by name."""
    with open_client(url) as client:
        _print_aliases(list(client.items("/aliases")))


@aliases_app.command("show")
def aliases_show(
    name: AliasName,
    moves: Annotated[int, typer.Option(min=1, max=100, help="How many of the last moves.")] = 20,
    url: Url = DEFAULT_URL,
) -> None:
    """Show which model an alias points at, and which ones it pointed at before."""
    with open_client(url) as client:
        found = client.get(f"/aliases/{quote(name, safe='')}?limit={moves}")
    _print_aliases([found])
    rows = [(short_time(m["created_at"]), m["model_id"], "rollback" if m["rollback"] else "") for m in found["history"]]
    print_table("moves, newest first", ("time", "model", ""), rows)


@aliases_app.command("set")
def aliases_set(
    name: AliasName,
    model: Annotated[str, typer.Argument(help="Id of the model (mdl_…), its beginning, @last, or another alias.")],
    shadow: Annotated[
        str | None,
        typer.Option(help="Model that decides on the same rows without a say; none to have none."),
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Point an alias at a model."""
    with open_client(url) as client:
        body: dict[str, Any] = {"model": client.get(model_path(client, model))["id"]}
        if shadow is not None:
            body["shadow"] = None if shadow == "none" else client.get(model_path(client, shadow))["id"]
        _print_aliases([client.put(f"/aliases/{quote(name, safe='')}", body)])


aliases_app.command("shadow")(alias_shadow)


@aliases_app.command("rollback")
def aliases_rollback(name: AliasName, url: Url = DEFAULT_URL) -> None:
    """Point an alias at the model that it pointed at before; doing it again goes further back."""
    with open_client(url) as client:
        _print_aliases([client.post(f"/aliases/{quote(name, safe='')}/rollback")])


@aliases_app.command("delete")
def aliases_delete(name: AliasName, url: Url = DEFAULT_URL) -> None:
    """Delete an alias with its history and its feedback; the models stay."""
    with open_client(url) as client:
        client.delete(f"/aliases/{quote(name, safe='')}")
    print(f"{name} is deleted")


def _print_aliases(found: Sequence[dict[str, Any]]) -> None:
    rows = [(a["name"], a["model_id"], short_time(a["updated_at"]), a["shadow_id"] or "") for a in found]
    print_table("", ("alias", "model", "since", "shadow"), rows, below=1)
