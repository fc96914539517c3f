"""``prefsvm audit`` and ``audits``: a target is proved in the terminal, row by row, or by a CSV file out and in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli import looking
from service.cli.advice import in_flags, print_failure, print_notes
from service.cli.looking import KEYS, answers, ask_key, errors_by_line, print_row, write_rows
from service.cli.named_files import dataset_of
from service.cli.names import LAST, full_id, model_path, path_of
from service.cli.support import (
    DEFAULT_URL,
    Url,
    fail,
    interruptible,
    open_client,
    print_table,
    published,
    short_time,
    wait_for,
)
from service.cli.words import UNDECIDED
from solver import percents

if TYPE_CHECKING:
    from service.cli.client import Connection

AuditId = Annotated[str, typer.Argument(help="Id of the audit (aud_…).")]
audits_app = typer.Typer(help="Targets that are proved by looking at few rows (prefsvm audit).")
OBJECTIVES = (
    "precision=0.95, recall=0.9, ham_loss=0.001 (or false_positive_rate=0.001), or cost=5:1 (of a false negative and "
    "of a false positive) with --at-most."
)
AT_ONCE = 100
"""Rows of one answer of the service."""


def audit(
    model: Annotated[str, typer.Argument(help="Id of a model (mdl_…) or an alias; or of an audit (aud_…) to go on.")],
    dataset: Annotated[
        str | None,
        typer.Argument(
            help="Whose unlabelled rows it is about: a data set (ds_…), or a file, uploaded unless the service has it.",
            show_default="of the audit; what the model was trained on",
        ),
    ] = None,
    objective: Annotated[str | None, typer.Option(help=f"{OBJECTIVES}", show_default="of the training")] = None,
    at_most: Annotated[float | None, typer.Option(help="With cost=…: what a row may cost on average.")] = None,
    confidence: Annotated[float, typer.Option(help="Of the proof.")] = 0.95,
    rows: Annotated[int, typer.Option(help="Rows that are drawn, at most; nobody has to look at all.")] = 2000,
    thresholds: Annotated[
        str | None,
        typer.Option(
            help="Tried in this order, each once the one before is proven: 1.2,0.8,0.5; or curve: some around the "
            "model's own.",
            show_default="the one that decides now",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the rows that have no answer to a CSV file with a column 'answer'.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Send the answers of such a file.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Prove a target of a model: look at rows that chance draws, y or n, until it is proven or refuted."""
    with open_client(url) as client:
        if dataset is None and (model == LAST or model.startswith("aud_")):
            path = path_of(client, "/audits", model)
        else:
            more = {"confidence": confidence, "rows": rows} | _thresholds(thresholds)
            path = f"/audits/{_begin(client, model, dataset, objective, at_most, more)}"
        found = client.get(path)
        if found["status"] == "preparing":
            found = wait_for(client, found, "/audits")
        if found["status"] == "failed":
            error = found["error"]
            fail(f"no rows could be drawn{': ' + in_flags(error['message']) if error else ''}")
        print_notes(found["pool"]["warnings"])
        if labels is not None:
            found = _send_file(client, path, labels, found)
        if out is not None:
            with published(out) as sink:
                items = ({**item, "called": item["label"]} for item in _items(client, path, AT_ONCE))
                written = write_rows(items, ("called", "score", "probability"), sink)
            print(f"{found['id']}: {written} rows are in {out}; fill in 'answer', and then")
            print(f"prefsvm audit {found['id']} --labels {out}")
        if labels is None and out is None and looking.somebody_is_there():
            _look(client, path, found)
        elif out is None:
            _print_verdict(found)


def _begin(
    client: Connection,
    model: str,
    dataset: str | None,
    objective: str | None,
    at_most: float | None,
    more: dict[str, Any],
) -> str:
    """Make an audit, and print its id; without a data set go on with one that asks the same, if there is one."""
    asked = None if objective is None else _asked(objective, at_most)
    if dataset is None or asked is None:
        found = client.get(model_path(client, model))
        asked = asked or _of_training(found["objective"], at_most)
        if dataset is None and "thresholds" not in more:
            begun = _begun(client, found["id"], asked, more["confidence"])
            if begun is not None:
                return begun
        dataset = dataset or found["dataset_id"]
        if dataset is None:
            fail(
                "the data set that this model was trained on was deleted; name another one, or a file, behind the model"
            )
    named = {"model": full_id(client, "/models", model), "dataset": dataset_of(client, dataset, None, {}, [])}
    made = client.post("/audits", {**named, "objective": asked, **more})
    print(made["id"])
    return str(made["id"])


def _asked(objective: str, at_most: float | None) -> dict[str, Any]:
    from service.cli.client import parse_audit_objective

    try:
        return parse_audit_objective(objective, at_most)
    except ValueError as error:
        raise typer.BadParameter(f"--objective: {error}") from None


def _of_training(objective: dict[str, Any], at_most: float | None) -> dict[str, Any]:
    """Return what a model was asked for as what is to be proved; refuse what no audit proves."""
    kind, bound = objective["kind"], "target" if "target" in objective else "at_most"
    if at_most is not None or kind not in ("precision", "recall", "false_positive_rate", "ham_loss"):
        raise typer.BadParameter(
            f"--objective says what is to be proved (the model was trained for {kind}): {OBJECTIVES}"
        )
    return {"kind": kind, bound: objective[bound]}


def _begun(client: Connection, model: str, asked: dict[str, Any], confidence: float) -> str | None:
    """Return the id of an audit that asks just this and goes on; None if there is none."""
    for found in client.items("/audits"):
        same = found["model"] == model and found["confidence"] == confidence and found["sealed_at"] is None
        if same and found["objective"].items() >= asked.items() and found["status"] in ("preparing", "open"):
            return str(found["id"])
    return None


def _thresholds(text: str | None) -> dict[str, Any]:
    """Return what the body of a request says of them."""
    if text is None or text == "curve":
        return {} if text is None else {"thresholds": text}
    try:
        return {"thresholds": [float(each) for each in text.split(",")]}
    except ValueError:
        raise typer.BadParameter(
            f"--thresholds: {text!r} is neither curve nor numbers with commas between them, such as 1.2,0.8"
        ) from None


def _look(client: Connection, path: str, found: dict[str, Any]) -> None:
    """Show row after row, and send each answer at once."""
    pool = found["pool"]
    print(f"Is it so that {found['statement']}?")
    if not found["answered"]:
        print(_length_words(pool))
    print(f"y: it is {pool['positive']}, n: it is {pool['negative']}, {KEYS}")
    with interruptible(f"{found['id']} keeps its answers; prefsvm audit {found['id']} goes on"):
        for item in _items(client, path):
            print_row(item, f"called {item['label']}" if item["label"] else UNDECIDED)
            key = ask_key(f"{pool['positive']}? ")
            if key == "q":
                break
            if key == "s":
                continue
            label = pool["positive"] if key == "y" else pool["negative"]
            found = client.post(f"{path}/labels", {"rows": [item["row"]], "labels": [label]})
            if _is_over(found):
                break
            print(f"  {found['answered']} answered, proved so far: {_bound_words(found)}")
    _print_verdict(found)
    if not _is_over(found):
        print(f"prefsvm audit {found['id']} goes on")


def _length_words(pool: dict[str, Any]) -> str:
    """Say how many answers it will take, before the first one."""
    if pool["expected_answers"] is None:
        return f"how many answers that takes is not known beforehand: at most the {pool['drawn']:,} rows that are drawn"
    return (
        f"if the model's probabilities are right, that takes about {pool['expected_answers']:,} answers, of the "
        f"{pool['drawn']:,} rows that are drawn"
    )


def _is_over(found: dict[str, Any]) -> bool:
    """Tell whether nothing more is to be proved, of none of several thresholds."""
    return bool(found["status"] != "open" and (found["verdict"] or {}).get("next_threshold") is None)


def _items(client: Connection, path: str, at_once: int = 10) -> Iterator[dict[str, Any]]:
    """Yield the rows without an answer, in the order of the draw."""
    after = 0
    while items := client.get(f"{path}/next?n={at_once}&after={after}")["items"]:
        yield from items
        after = items[-1]["position"]


def _bound_words(found: dict[str, Any]) -> str:
    kind, bound = found["objective"]["kind"], found["verdict"]["bound"]
    if kind == "cost":
        return f"at most {bound:.4g} a row"
    is_rate = "at_most" in found["objective"]
    return f"{kind} at most {percents.at_most(bound)}" if is_rate else f"{kind} at least {percents.at_least(bound)}"


def _print_verdict(found: dict[str, Any]) -> None:
    """Say what the answers prove."""
    if found["verdict"] is None:
        print(f"{found['id']}: no row has an answer yet whether {found['statement']}")
        return
    print(f"{found['id']}: {found['verdict']['sentence']}")


def _send_file(client: Connection, path: str, file: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Send the answers of a file: labels, or y and n. Rows without any are left out."""
    pool, sent = found["pool"], 0
    for given in answers(file, (pool["negative"], pool["positive"]), f"prefsvm audit {found['id']} --out FILE"):
        body = {"rows": [each.row for each in given], "labels": [each.label for each in given]}
        with errors_by_line(given):
            found = client.post(f"{path}/labels", body)
        sent += len(given)
    print(f"{sent} answers sent")
    return found


@audits_app.command("list")
def audits_list(url: Url = DEFAULT_URL) -> None:
    """List audits, newest first."""
    with open_client(url) as client:
        _print_audits(list(client.items("/audits")))


@audits_app.command("show")
def audits_show(audit: AuditId, url: Url = DEFAULT_URL) -> None:
    """Show what an audit has proved so far."""
    with open_client(url) as client:
        found = client.get(path_of(client, "/audits", audit))
    _print_audits([found])
    print_failure(found)
    if found["pool"]:
        _print_verdict(found)
        print_notes(found["pool"]["warnings"], sys.stdout)


@audits_app.command("seal")
def audits_seal(
    audit: AuditId,
    alias: Annotated[str | None, typer.Option(help="An alias that learns the answers at its next training.")] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """End an audit: nothing of it changes any more."""
    with open_client(url) as client:
        found = client.post(f"{path_of(client, '/audits', audit)}/seal", {"alias": alias})
    _print_verdict(found)
    if found["feedback"]:
        print(f"its answers are {found['feedback']}; prefsvm retrain {alias} learns them")


@audits_app.command("delete")
def audits_delete(audit: AuditId, url: Url = DEFAULT_URL) -> None:
    """Delete an audit with its answers."""
    with open_client(url) as client:
        client.delete(path_of(client, "/audits", audit := full_id(client, "/audits", audit)))
    print(f"{audit} is deleted")


def _print_audits(found: list[dict[str, Any]]) -> None:
    from service.cli.words import audit_words

    rows = [
        (a["id"], a["status"] + (", sealed" if a["sealed_at"] else ""), a["answered"], short_time(a["created_at"]),
         audit_words(a["objective"], a["confidence"]), a["model"], a["dataset"] or "")
        for a in found
    ]  # fmt: skip
    print_table("", ("audit", "status", "answers", "created", "target", "model", "data set"), rows, below=2)
