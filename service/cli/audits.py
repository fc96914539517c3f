"""``prefsvm audit`` and ``audits``: a target is proved in the terminal, row by row, or by a CSV file out and in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from service.cli.advice import in_flags, print_notes
from service.cli.named_files import dataset_of
from service.cli.names import full_id, path_of
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

if TYPE_CHECKING:
    from service.cli.client import Connection

AuditId = Annotated[str, typer.Argument(help="Id of the audit (aud_…).")]
audits_app = typer.Typer(help="Targets that are proved by looking at few rows (prefsvm audit).")
OBJECTIVES = "precision=0.95, recall=0.9, or cost=5:1 (of a false negative and of a false positive) with --at-most."
AT_ONCE = 100
"""Rows of one answer of the service."""
LONGEST_TEXT = 2000
"""Characters of a value that are shown."""
OWN_COLUMNS = ("row", "answer", "called", "score", "probability")
"""Of a file of rows; what the model sees of them stands behind."""
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def audit(
    model: Annotated[str, typer.Argument(help="Id of a model (mdl_…) or an alias; or of an audit (aud_…) to go on.")],
    dataset: Annotated[
        str | None,
        typer.Argument(
            help="Whose unlabelled rows it is about: a data set (ds_…), or a file, uploaded unless the service has it.",
            show_default="of the audit",
        ),
    ] = None,
    objective: Annotated[str | None, typer.Option(help=f"{OBJECTIVES} Required for a new audit.")] = None,
    at_most: Annotated[float | None, typer.Option(help="With cost=…: what a row may cost on average.")] = None,
    confidence: Annotated[float, typer.Option(help="Of the proof.")] = 0.95,
    rows: Annotated[int, typer.Option(help="Rows that are drawn, at most; nobody has to look at all.")] = 2000,
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
        if dataset is None:
            path = path_of(client, "/audits", model)
        else:
            path = f"/audits/{_begin(client, model, dataset, objective, at_most, confidence, rows)}"
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
                written = _write_rows(client, path, sink)
            print(f"{found['id']}: {written} rows are in {out}; fill in 'answer', and then")
            print(f"prefsvm audit {found['id']} --labels {out}")
        if labels is None and out is None and _somebody_is_there():
            _look(client, path, found)
        elif out is None:
            _print_verdict(found)


def _begin(
    client: Connection,
    model: str,
    dataset: str,
    objective: str | None,
    at_most: float | None,
    confidence: float,
    rows: int,
) -> str:
    """Make an audit, and print its id."""
    from service.cli.client import parse_audit_objective

    if objective is None:
        raise typer.BadParameter(f"--objective says what is to be proved: {OBJECTIVES}")
    try:
        asked = parse_audit_objective(objective, at_most)
    except ValueError as error:
        raise typer.BadParameter(f"--objective: {error}") from None
    named = {"model": full_id(client, "/models", model), "dataset": dataset_of(client, dataset, None, {}, [])}
    made = client.post("/audits", {**named, "objective": asked, "confidence": confidence, "rows": rows})
    print(made["id"])
    return str(made["id"])


def _look(client: Connection, path: str, found: dict[str, Any]) -> None:
    """Show row after row, and send each answer at once."""
    pool = found["pool"]
    print(f"Is it so that {found['statement']}?")
    print(f"y: it is {pool['positive']}, n: it is {pool['negative']}, s: later, q: enough for now")
    with interruptible(f"{found['id']} keeps its answers; prefsvm audit {found['id']} goes on"):
        for item in _items(client, path):
            _print_item(item)
            key = _key(f"{pool['positive']}? ")
            if key == "q":
                break
            if key == "s":
                continue
            label = pool["positive"] if key == "y" else pool["negative"]
            found = client.post(f"{path}/labels", {"rows": [item["row"]], "labels": [label]})
            if found["status"] != "open":
                break
            print(f"  {found['answered']} answered, proved so far: {_bound_words(found)}")
    _print_verdict(found)
    if found["status"] == "open":
        print(f"prefsvm audit {found['id']} goes on")


def _somebody_is_there() -> bool:
    return sys.stdin.isatty()


def _key(question: str) -> str:
    """Ask for one key."""
    print(question, end="", flush=True)
    while True:
        key = typer.getchar().lower()
        if key in ("\x03", "\x04", ""):
            raise KeyboardInterrupt
        if key in "ynsq":
            print(key)
            return key


def _items(client: Connection, path: str, at_once: int = 10) -> Iterator[dict[str, Any]]:
    """Yield the rows without an answer, in the order of the draw."""
    after = 0
    while items := client.get(f"{path}/next?n={at_once}&after={after}")["items"]:
        yield from items
        after = items[-1]["position"]


def _print_item(item: dict[str, Any]) -> None:
    named = f" {item['key']}" if item["key"] is not None else ""
    sure = "" if item["probability"] is None else f", probability {item['probability']:.2f}"
    print(f"\n--- row {item['row']}{named}: called {item['label']}, score {item['score']:.4g}{sure}")
    for name, value in item["content"].items():
        text = "" if value is None else str(value)
        cut = f"… ({len(text):,} characters)" if len(text) > LONGEST_TEXT else ""
        # what strangers wrote must not steer the terminal
        shown = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text[:LONGEST_TEXT])
        print(f"{name}: {shown}{cut}")


def _bound_words(found: dict[str, Any]) -> str:
    kind, bound = found["objective"]["kind"], found["verdict"]["bound"]
    return f"at most {bound:.4g} a row" if kind == "cost" else f"{kind} at least {bound:.3f}"


def _print_verdict(found: dict[str, Any]) -> None:
    """Say what the answers prove."""
    if found["verdict"] is None:
        print(f"{found['id']}: no row has an answer yet whether {found['statement']}")
        return
    print(f"{found['id']}: {found['verdict']['sentence']}")


def _write_rows(client: Connection, path: str, sink: IO[str]) -> int:
    """Write the rows that have no answer, and return how many."""
    import csv

    written, names = 0, None
    writer = csv.writer(sink, lineterminator="\n")
    for item in _items(client, path, AT_ONCE):
        if names is None:
            names = list(item["content"])
            keyed = item["key"] is not None
            writer.writerow([*OWN_COLUMNS, *(["key"] if keyed else []), *map(_harmless, names)])
        # a matrix has other columns in each row
        held = [item["content"].get(name) for name in names]
        own = [item["row"], "", _harmless(item["label"]), item["score"], item["probability"]]
        key = [] if item["key"] is None else [_harmless(item["key"])]
        writer.writerow([*own, *key, *(_harmless(value) if isinstance(value, str) else value for value in held)])
        written += 1
    return written


def _harmless(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula: the file is for people to look at."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def _send_file(client: Connection, path: str, file: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Send the answers of a file: labels, or y and n. Rows without any are left out."""
    from service.cli.csv_rows import CsvRows, CsvStyle, Piece, encoding_of

    pool = found["pool"]
    meant = {"y": pool["positive"], "n": pool["negative"]}
    if not meant.keys().isdisjoint(pool[name] for name in ("positive", "negative")):
        meant = {}  # they are labels themselves
    sent = 0
    with file.open(encoding=encoding_of(file), newline="") as source:
        rows = CsvRows(source, CsvStyle(), {})
        for name in ("row", "answer"):
            if name not in rows.header:
                fail(f"{file} has no column {name!r}; prefsvm audit {found['id']} --out FILE writes one that has")
        row_at, answer_at = rows.header.index("row"), rows.header.index("answer")
        for piece in rows.pieces():
            given = [
                (row[row_at].strip(), row[answer_at].strip(), line)
                for row, line in zip(piece.rows, piece.lines, strict=True)
                if row[answer_at].strip()
            ]
            for number, _, line in given:
                if not (number.isascii() and number.isdigit()):
                    fail(f"line {line} of {file}: {number!r} is no number of a row; leave column 'row' as it was")
            if not given:
                continue
            body = {
                "rows": [int(number) for number, _, _ in given],
                "labels": [meant.get(answer.lower(), answer) for _, answer, _ in given],
            }
            with Piece([], [line for _, _, line in given]).errors_by_line():
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
    if found["error"]:
        print(in_flags(f"{found['error']['code']}: {found['error']['message']}"))
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
